// Sum of squares of several tensors (ir/ops/reduce.cc, sum_squares) on the GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

// Dense, from a multiple of 16 bytes on.
struct SquaredTensor {
  const void* data = nullptr;
  Element element = Element::kF32;
  int64_t count = 0;
};

// Returns the bytes of the workspace for tensors of these elements and counts.
int64_t SumSquaresBytes(const SquaredTensor* tensors, int count);

// The sum is f64 and all tensors are, if the first one is, or f32 and none is.
// The order of all sums is fixed.
cudaError_t SumSquares(const SquaredTensor* tensors, int count, void* workspace,
                       void* to, cudaStream_t stream);

}  // namespace asyra::cuda
