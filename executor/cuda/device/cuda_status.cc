#include "executor/cuda/device/cuda_status.h"

#include "ir/support/status.h"

namespace asyra::cuda {
namespace {

// The function of a call, which is text of the source.
std::string_view Function(std::string_view call) {
  return call.substr(0, call.find('('));
}

}  // namespace

absl::Status ToStatus(cudaError_t error, std::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  // Clears errors that do not invalidate the context.
  cudaGetLastError();
  std::string text =
      fmt::format("{}: {}", Function(call), cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) {
    return absl::ResourceExhaustedError(text);
  }
  return absl::InternalError(text);
}

absl::Status ToStatus(cublasStatus_t error, std::string_view call) {
  if (error == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("{}: {}", Function(call), cublasLtGetStatusString(error)));
}

absl::Status ToStatus(ncclResult_t error, std::string_view call) {
  if (error == ncclSuccess) return absl::OkStatus();
  return absl::InternalError(fmt::format("{}: {}: {}", Function(call),
                                         ncclGetErrorString(error),
                                         ncclGetLastError(nullptr)));
}

OnGpu::OnGpu(int ordinal) {
  cudaGetDevice(&before_);
  if (before_ != ordinal) cudaSetDevice(ordinal);
}

OnGpu::~OnGpu() { cudaSetDevice(before_); }

}  // namespace asyra::cuda
