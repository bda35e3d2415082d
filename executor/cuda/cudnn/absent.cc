// Replacements in a build without cuDNN or its frontend's headers.
#include "executor/cuda/cudnn/cudnn.h"
#include "ir/support/status.h"

namespace asyra::cuda {

std::string CudnnVersion() { return "none"; }

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareCudnnAttention(
    const AttentionProblem&, const AttentionOperands&, bool) {
  return Unimplemented("this build has no cuDNN");
}

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareCudnnAttentionGrad(
    const AttentionProblem&, const AttentionOperands&) {
  return Unimplemented("this build has no cuDNN");
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareCudnnConv(const ConvProblem&) {
  return Unimplemented("this build has no cuDNN");
}

}  // namespace asyra::cuda
