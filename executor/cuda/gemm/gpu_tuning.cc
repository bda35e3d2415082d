#include "executor/cuda/gemm/gpu_tuning.h"

#include <map>
#include <mutex>

#include "executor/cuda/device/cuda_status.h"
#include "ir/support/status.h"

namespace asyra::cuda {

TuningCache& GpuTuningCache() {
  static auto* const cache = new TuningCache(&DiskCache::OfProcess());
  return *cache;
}

absl::StatusOr<std::string> GpuModel() {
  static std::mutex mutex;
  static auto* const models = new std::map<int, std::string>();
  int gpu = 0;
  ASYRA_CUDA(cudaGetDevice(&gpu));
  std::lock_guard lock(mutex);
  std::string& model = (*models)[gpu];
  if (!model.empty()) return model;
  cudaDeviceProp properties;
  int driver = 0;
  ASYRA_CUDA(cudaGetDeviceProperties(&properties, gpu));
  ASYRA_CUDA(cudaDriverGetVersion(&driver));
  model = fmt::format("{}, {} multiprocessors, driver {}.{}", properties.name,
                      properties.multiProcessorCount, driver / 1000,
                      driver % 1000 / 10);
  return model;
}

}  // namespace asyra::cuda
