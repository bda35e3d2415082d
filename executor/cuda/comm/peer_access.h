// Peer access between the GPUs of ranks.
#pragma once

#include "executor/cuda/comm/peer_memory.h"

namespace asyra::cuda {

// Returns whether the GPUs of all ranks of `control` on one host reach each
// other's memory: that of ranks of this process, for which peer access is
// enabled, and that of other processes, which is opened and read. `ordinal` is
// that of the caller's GPU, its thread's current one. False where
// NCCL_P2P_DISABLE is set. All ranks call it and get the same answer.
// Errors: those of CUDA and of the exchange.
absl::StatusOr<bool> ReachAllPeers(Communicator& control,
                                   const PeerMemory& memory, int ordinal);

}  // namespace asyra::cuda
