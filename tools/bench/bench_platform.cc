#include "tools/bench/bench_platform.h"

#include "executor/cpu/cpu_info.h"
#include "executor/cpu/run_on_cpu.h"
#include "executor/cuda/device/cuda_device.h"
#include "executor/cuda/device/cuda_platform.h"
#include "executor/cuda/device/device_info.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

absl::StatusOr<std::unique_ptr<Platform>> OpenGpus(const BenchOptions& options,
                                                   BenchResult* result) {
  auto platform = CreateCudaPlatform({.timeout_s = options.timeout_s});
  if (!platform.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("{}; --device cpu measures this machine's cpu",
                    MessageOf(platform.status())));
  }
  ASYRA_ASSIGN_OR_RETURN(CudaDeviceInfo info, DescribeCuda());
  result->device = info.device;
  result->driver = info.driver;
  result->libraries = info.libraries;
  result->cache_bytes = info.cache_bytes;
  result->ranks = options.ranks;
  if (result->ranks == 0) {
    // All ranks that there is room for.
    while ((*platform)->CheckRanks(result->ranks + 1).ok()) ++result->ranks;
    result->whole_host = true;
  }
  ASYRA_RETURN_IF_ERROR((*platform)->CheckRanks(result->ranks));
  return platform;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Platform>> OpenPlatform(
    const BenchOptions& options, BenchResult* result) {
  if (options.device != "cpu") return OpenGpus(options, result);
  result->device = DescribeCpu().name;
  result->driver = "none";
  result->libraries = "the kernels of the cpu";
  result->ranks = options.ranks > 0 ? options.ranks : 2;
  result->whole_host = true;
  return CreateCpuPlatform();
}

}  // namespace asyra
