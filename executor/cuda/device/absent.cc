// Replacements in a build without the CUDA toolkit.
#include "executor/cuda/device/cuda_platform.h"
#include "executor/cuda/device/device_info.h"
#include "executor/cuda/device/gpu_system.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

absl::Status NoCuda() {
  return Unimplemented(
      "this build has no CUDA: no toolkit with NCCL was found when it was "
      "configured, or it was configured with -DASYRA_CUDA=OFF");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Platform>> CreateCudaPlatform(
    const CudaPlatformOptions&) {
  return NoCuda();
}

absl::StatusOr<CudaDeviceInfo> DescribeCuda() { return NoCuda(); }

absl::StatusOr<GpuSystem> DescribeGpus() { return NoCuda(); }

}  // namespace asyra
