// A collective on copy engines: each member writes its chunks directly into the
// memory of the others, which needs no CTAs. Each GPU then reduces the chunks
// it owns.
//
// For members of one host whose GPUs reach each other's memory. Two device
// barriers (peer_flags.h) order it, or three where reduced chunks are sent
// back.
#pragma once

#include <memory>

#include "executor/comm/collective_geometry.h"
#include "executor/cuda/comm/peer_use.h"
#include "executor/cuda/device/cuda_kernel.h"

namespace asyra::cuda {

// Prepares a collective that copy engines can carry
// (ir/gpu/copy_engine_reach.h). Peer access between the members' GPUs is
// enabled. Errors: those of CUDA.
absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareCopyCollective(
    const CollectiveUse& use, PeerUse own);

}  // namespace asyra::cuda
