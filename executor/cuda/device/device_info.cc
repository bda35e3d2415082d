#include "executor/cuda/device/device_info.h"

#include "executor/cuda/device/cuda_device.h"
#include "executor/cuda/device/cuda_status.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

std::string CudaVersion(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

}  // namespace

absl::StatusOr<CudaDeviceInfo> DescribeCuda() {
  ASYRA_RETURN_IF_ERROR(CountCudaDevices().status());
  cudaDeviceProp properties;
  ASYRA_CUDA(cudaGetDeviceProperties(&properties, 0));
  int driver = 0, runtime = 0, nccl = 0;
  ASYRA_CUDA(cudaDriverGetVersion(&driver));
  ASYRA_CUDA(cudaRuntimeGetVersion(&runtime));
  ASYRA_CUDA(ncclGetVersion(&nccl));
  size_t cublas = cublasLtGetVersion();
  return CudaDeviceInfo{
      .device = properties.name,
      .driver = fmt::format("CUDA {}", CudaVersion(driver)),
      .libraries =
          fmt::format("CUDA {}, NCCL {}.{}.{}, cuBLASLt {}.{}",
                      CudaVersion(runtime), nccl / 10000, nccl % 10000 / 100,
                      nccl % 100, cublas / 10000, cublas % 10000 / 100),
      .cache_bytes = properties.l2CacheSize};
}

}  // namespace asyra
