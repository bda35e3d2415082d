// Peer access between the GPUs of ranks.
#pragma once

#include "executor/cuda/comm/peer_memory.h"

namespace asyra::cuda {

// Returns whether the GPUs of all ranks of `control` on one host reach each
// other's memory. For ranks of this process peer access is enabled; memory of
// other processes is opened and read. `ordinal` is the caller's GPU, the
// current one of its thread. False where NCCL_P2P_DISABLE is set. All ranks
// call it and get the same answer. Errors: of CUDA, and of the exchange.
absl::StatusOr<bool> ReachAllPeers(Communicator& control,
                                   const PeerMemory& memory, int ordinal);

}  // namespace asyra::cuda
