// Attention on Hopper's tensor cores by kernels of our own, for what cuDNN does
// not take: masks, soft caps, sinks, documents, with lengths and bands.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "executor/cuda/device/cuda_kernel.h"
#include "executor/cuda/kernels/attention_problem.h"

namespace asyra::cuda {

// Prepares attention. Error: Unimplemented, with the reason, where it cannot
// compute the use.
absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareFlashAttention(
    const AttentionProblem& problem, const AttentionOperands& operands,
    bool log_sums);

// Prepares its gradients by q, k and v. The same error.
absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareFlashAttentionGrad(
    const AttentionProblem& problem, const AttentionOperands& operands);

}  // namespace asyra::cuda
