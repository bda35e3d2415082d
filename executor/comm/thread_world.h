// The communicator of ranks that are threads of one process: members of a
// group synchronize, then each reads directly from the others' memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "executor/comm/communicator.h"

namespace asyra {

struct ThreadWorldOptions {
  // A rank that is waited for longer is lost.
  double timeout_s = 60;
  // Every collective takes at least this long from the arrival of its last
  // member, without using the cpu: simulates a slow link. In a chunk plan the
  // copies to other ranks share this time.
  double inject_comm_us = 0;
  // The copies and signals of a chunk plan are late by a random time of at most
  // this: any order that the plan allows may come.
  double inject_jitter_us = 0;
};

// Makes a communicator for each of `ranks` ranks, named "local". They may
// outlive each other; after one is destroyed, collectives and exchanges of the
// others fail.
std::vector<std::unique_ptr<Communicator>> CreateThreadWorld(
    int64_t ranks, const ThreadWorldOptions& options = {});

// Runs body(communicator) for every rank of a local world, each on its own
// thread. An error of one rank aborts the others. Gives the error of the rank
// that failed first, with its number before it.
absl::Status RunLocalRanks(
    int64_t ranks, const ThreadWorldOptions& options,
    const std::function<absl::Status(Communicator& world)>& body);

}  // namespace asyra
