// Errors of CUDA's libraries as Status: the call, and what they say of it.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <string_view>

#include "absl/status/status.h"

namespace asyra::cuda {

// ResourceExhausted where memory is short, else Internal.
absl::Status ToStatus(cudaError_t error, std::string_view call);
absl::Status ToStatus(cublasStatus_t error, std::string_view call);
absl::Status ToStatus(ncclResult_t error, std::string_view call);

// Calls on this thread go to the GPU `ordinal` while it lives.
class OnGpu {
 public:
  explicit OnGpu(int ordinal);
  ~OnGpu();
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

 private:
  int before_ = 0;
};

}  // namespace asyra::cuda

#define ASYRA_CUDA(call) \
  ASYRA_RETURN_IF_ERROR(::asyra::cuda::ToStatus(call, #call))
