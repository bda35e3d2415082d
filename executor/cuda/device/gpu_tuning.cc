#include "executor/cuda/device/gpu_tuning.h"

#include "executor/cuda/device/per_gpu.h"
#include "ir/support/status.h"

namespace asyra::cuda {
namespace {

absl::Status DescribeModel(std::string* model) {
  int gpu = 0, driver = 0;
  cudaDeviceProp properties;
  ASYRA_CUDA(cudaGetDevice(&gpu));
  ASYRA_CUDA(cudaGetDeviceProperties(&properties, gpu));
  ASYRA_CUDA(cudaDriverGetVersion(&driver));
  *model = fmt::format("{}, {} multiprocessors, driver {}.{}", properties.name,
                       properties.multiProcessorCount, driver / 1000,
                       driver % 1000 / 10);
  return absl::OkStatus();
}

}  // namespace

TuningCache& GpuTuningCache() {
  static auto* const cache = new TuningCache(&DiskCache::OfProcess());
  return *cache;
}

absl::StatusOr<std::string> GpuModel() {
  static auto* const models = new PerGpu<std::string>();
  ASYRA_ASSIGN_OR_RETURN(const std::string* model, models->Get(DescribeModel));
  return *model;
}

}  // namespace asyra::cuda
