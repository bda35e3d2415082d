// One GPU as a device of the executor.
#pragma once

#include <memory>

#include "executor/device.h"

namespace asyra {

struct CudaDeviceOptions {
  int ordinal = 0;  // of the GPUs that this process sees
  bool graphs = true;
};

// Sets CUDA_MODULE_LOADING=EAGER for the process unless it is set; this has an
// effect only before the first use of CUDA.
// For one rank: its executors use the device one after the other.
// Errors: what CUDA says.
absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(
    const CudaDeviceOptions& options = {});

// Returns the ordinal of the GPU of a device that CreateCudaDevice made.
int OrdinalOf(const Device& device);

// GPUs that this process sees. Errors: FailedPrecondition where there are none
// or the driver is too old, naming both versions.
absl::StatusOr<int> CountCudaDevices();

}  // namespace asyra
