// f32 stored in halves (ir/halves.h) by a GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace asyra::cuda {

// `count` elements to 4 * count bytes at `to`, which do not overlap them.
cudaError_t StoreInHalves(const float* from, int64_t count, void* to,
                          cudaStream_t stream);

}  // namespace asyra::cuda
