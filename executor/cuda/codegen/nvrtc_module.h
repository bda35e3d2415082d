// Kernels compiled from source by NVRTC when they are prepared.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "absl/status/statusor.h"

namespace asyra::cuda {

struct NvrtcOptions {
  int architecture = 0;  // 90 for compute capability 9.0
  bool approximate_division = false;
  // Uses what only this architecture has, not its successors: sm_90a.
  bool own_features = false;
};

// Returns the architecture of the current GPU, as in NvrtcOptions.
absl::StatusOr<int> ArchitectureOfGpu();

// Machine code of CUDA C++ in which functions are the device's; needs no GPU.
// Kept on disk (executor/tuning/disk_cache.h).
// Errors: what NVRTC says of the source.
absl::StatusOr<std::string> CompileToCubin(const std::string& source,
                                           const NvrtcOptions& options);

// Returns the kernel `name` of the source for the current GPU, loaded, so that
// its first launch may be captured. Kept for the process. `architecture` is the
// GPU's, whatever the options say.
absl::StatusOr<cudaKernel_t> CompileKernel(const std::string& source,
                                           const std::string& name,
                                           const NvrtcOptions& options);

}  // namespace asyra::cuda
