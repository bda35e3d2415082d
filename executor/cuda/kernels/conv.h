// Convolution (ir/ops/conv.cc) by a kernel of our own, straight from its
// definition: a thread for each result. For what cuDNN does not take.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

inline constexpr int kMaxSpatial = 4;

// Window along one spatial dimension: tap j of result i sees the element at i *
// stride + j * dilation - before, where elements are `spacing` apart.
struct ConvWindow {
  int64_t size = 1, taps = 1, results = 1;
  int64_t stride = 1, before = 0, after = 0, dilation = 1, spacing = 1;
};

// x [batch, groups * per_group, size...], w [outputs, per_group, taps...],
// y [batch, outputs, results...], dense; windows beyond `spatial` are of 1.
struct ConvProblem {
  Element element = Element::kF32;
  int64_t batch = 0, groups = 0, per_group = 0, outputs = 0;
  int spatial = 0;
  ConvWindow windows[kMaxSpatial];
};

// Summed in f32, f64 for f64.
cudaError_t Conv(const ConvProblem& problem, const void* x, const void* w,
                 void* y, cudaStream_t stream);

}  // namespace asyra::cuda
