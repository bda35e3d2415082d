// Running sums (ir/ops/softmax.cc) on the GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

// A scan along the middle of [outer, size, inner]; floats in double.
struct Scan {
  Element element = Element::kF32;
  int64_t outer = 1, size = 0, inner = 1;
  bool exclusive = false, reverse = false;
};

cudaError_t RunningSums(const Scan& scan, const void* x, void* to,
                        cudaStream_t stream);

}  // namespace asyra::cuda
