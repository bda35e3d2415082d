// Tuning results (executor/tuning/tuning_results.h) of kernels on GPUs.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "executor/tuning/tuning_cache.h"

namespace asyra::cuda {

// Returns the tuning results of this process, kept on disk.
TuningCache& GpuTuningCache();

// Returns the current GPU as the keys of its tuning results name it:
// "NVIDIA H200, 132 multiprocessors, driver 13.0".
absl::StatusOr<std::string> GpuModel();

}  // namespace asyra::cuda
