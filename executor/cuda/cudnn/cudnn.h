// Kernels by cuDNN. All are Unimplemented where cuDNN does not support the use,
// and in a build without cuDNN; the caller then uses another kernel.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/cuda/device/cuda_kernel.h"
#include "executor/cuda/kernels/attention_problem.h"
#include "executor/cuda/kernels/conv.h"
#include "executor/kernel.h"

namespace asyra::cuda {

// "9.13.0", or "none" in a build without it.
std::string CudnnVersion();

// f16 and bf16, without mask, softcap and sinks; of those that have lengths,
// uses without log sums (ir/ops/attention.h).
absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareCudnnAttention(
    const AttentionProblem& problem, const AttentionOperands& operands,
    bool log_sums);
// attention_grad of q, k and v, as above and without lengths. The order of its
// sums changes from run to run.
absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareCudnnAttentionGrad(
    const AttentionProblem& problem, const AttentionOperands& operands);
// Types and operands, which both of them check first.
absl::Status CheckCudnnTakes(const AttentionProblem& problem,
                             const AttentionOperands& operands);

// f16, bf16 and f32 (not in tf32) with one to three spatial dimensions, without
// input dilation and negative pads.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareCudnnConv(
    const ConvProblem& problem);

}  // namespace asyra::cuda
