#include "executor/cuda/device/driver_function.h"

#include "executor/cuda/device/cuda_status.h"
#include "ir/support/status.h"

namespace asyra::cuda {

absl::StatusOr<void*> DriverFunction(const char* name, unsigned version) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  ASYRA_CUDA(cudaGetDriverEntryPointByVersion(name, &address, version,
                                              cudaEnableDefault, &found));
  return found == cudaDriverEntryPointSuccess ? address : nullptr;
}

}  // namespace asyra::cuda
