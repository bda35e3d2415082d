// The communicator of ranks that are processes, over MPI: on one host or on
// many. Started by mpirun or srun:
//
//   mpirun -n 8 asyra-run model.asyra
//
// A collective is one message from each member to each other one, received in
// place (strided chunks are derived types) and, for reductions, added in the
// order of the group: the results equal those of the `local` world byte by
// byte. MPI's own collectives guarantee neither that nor to name a missing
// rank. The messages progress on the stream's thread while other
// streams compute.
#pragma once

#include <atomic>
#include <memory>

#include "absl/status/statusor.h"
#include "executor/comm/communicator.h"

namespace asyra {

struct MpiWorldOptions {
  // A rank that is waited for longer is lost.
  double timeout_s = 60;
  // Every collective takes at least this long from the arrival of its last
  // member, without using the cpu: simulates a slow link.
  double inject_comm_us = 0;
  // Set when this process was asked to end (from a handler of SIGTERM, say):
  // waits for other ranks then fail and name the cause. May be null; outlives
  // the world.
  const std::atomic<bool>* asked_to_end = nullptr;
};

// Returns whether this build has MPI (-DASYRA_MPI=ON and an MPI at configure
// time).
bool HasMpi();

// Initializes MPI, once in a process. A rank whose process ends on this host
// is noticed at once, on another one after the timeout.
//
// The destructor waits for all ranks and finalizes MPI; after an Abort it does
// neither, and the process must exit with an error.
// Errors: Unimplemented in a build without it; ranks that do not begin MPI
// within the timeout, and 20 s at least, of whom MPI does not say which; what
// MPI says. After an error the process must exit.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectMpi(
    const MpiWorldOptions& options);

}  // namespace asyra
