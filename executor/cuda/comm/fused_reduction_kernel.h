// An overlap of form one_kernel (ir/plans/fused_reduction.h) as a generated
// kernel over the memory of all members (codegen/peer_code.h).
#pragma once

#include <memory>
#include <string>

#include "executor/comm/communicator.h"
#include "executor/cuda/comm/peer_use.h"
#include "executor/cuda/device/cuda_kernel.h"

namespace asyra::cuda {

// Returns the reason why no kernel is generated for this body, in words; empty:
// one is.
absl::StatusOr<std::string> FusedReductionObstacle(const CollectiveUse& use);

// Prepares a body without such an obstacle; peer access between the members'
// GPUs is enabled. Errors: those of CUDA and of the compiler.
absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareFusedReduction(
    const CollectiveUse& use, PeerUse own);

}  // namespace asyra::cuda
