// Peer access between the GPUs of ranks.
#pragma once

#include "executor/comm/communicator.h"

namespace asyra::cuda {

// Whether the GPUs of all ranks of `control`, threads of one process, reach
// each other's memory, which is then enabled. `ordinal` is that of the caller's
// GPU, its thread's current one. False where NCCL_P2P_DISABLE is set. All ranks
// call it and get the same answer.
// Errors: those of CUDA and of the exchange.
absl::StatusOr<bool> ReachAllPeers(Communicator& control, int ordinal);

}  // namespace asyra::cuda
