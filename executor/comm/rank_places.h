// Places of ranks: threads of one process, processes of one host.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/comm/communicator.h"

namespace asyra {

struct RankPlace {
  std::string host;     // one running system: containers on it are equal
  std::string process;  // of the host, whatever its namespaces call it
  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

// Returns the place of this process.
RankPlace OwnPlace();

// Returns the places of all ranks, by rank. All ranks call it.
absl::StatusOr<std::vector<RankPlace>> ExchangePlaces(Communicator& world);

bool InOneProcess(absl::Span<const RankPlace> places);

// Returns the part of `places` that does not change from start to start:
// "0.0 0.0 0.1 1.2", for each rank its host and process, numbered as they first
// appear.
std::string ToString(absl::Span<const RankPlace> places);

}  // namespace asyra
