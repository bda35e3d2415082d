// Data to time kernels on: timings on zeros mislead.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

// Floats evenly in [-1, 1), integers and bools of 0 and 1.
cudaError_t FillRandom(Element element, void* data, int64_t count,
                       uint64_t seed, cudaStream_t stream);

}  // namespace asyra::cuda
