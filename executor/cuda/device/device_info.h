// The GPU, driver and libraries that measurements were made with, as text.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace asyra {

struct CudaDeviceInfo {
  std::string device;       // "NVIDIA H200"
  std::string driver;       // the CUDA version it knows
  std::string libraries;    // "CUDA 13.0, NCCL 2.28.9, cuBLASLt 13.1"
  int64_t cache_bytes = 0;  // of the largest cache
};

// Describes the first GPU. Errors: as CountCudaDevices; Unimplemented in a
// build without CUDA.
absl::StatusOr<CudaDeviceInfo> DescribeCuda();

}  // namespace asyra
