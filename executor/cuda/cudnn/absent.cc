// What a build without cuDNN, or without its frontend's headers, says.
#include "executor/cuda/cudnn/cudnn.h"
#include "ir/support/status.h"

namespace asyra::cuda {

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareCudnnAttention(
    const AttentionProblem&, const AttentionOperands&) {
  return Unimplemented("this build has no cuDNN");
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareCudnnConv(const ConvProblem&) {
  return Unimplemented("this build has no cuDNN");
}

}  // namespace asyra::cuda
