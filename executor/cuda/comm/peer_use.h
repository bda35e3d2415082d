// Resources by which a rank's kernels use the other GPUs of their group.
#pragma once

#include "executor/cuda/comm/peer_flags.h"
#include "executor/cuda/comm/peer_memory.h"

namespace asyra::cuda {

struct PeerUse {
  int self = 0;  // which of the members this rank is
  // Resources of this rank; they outlive the kernel.
  const PeerMemory* memory = nullptr;
  PeerFlags* flags = nullptr;
};

}  // namespace asyra::cuda
