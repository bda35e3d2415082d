// Results of attention over parts of the keys as one
// (ir/ops/attention_merge.cc), on the GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

inline constexpr int kMostMergedParts = 8;

// Values on the device: y [b, s, h, e] of each part, log sums [b, h, s], f32
// (f64 of f64), dense and aligned to 16 bytes.
struct AttentionParts {
  int count = 0;
  Element element = Element::kBF16;  // of y, where it is not wide
  int64_t b = 0, s = 0, h = 0, e = 0;
  // Bits of the parts, and of the result, whose y is f32 (f64 of f64).
  uint32_t wide = 0;
  bool wide_result = false;
  const void* y[kMostMergedParts] = {};
  const void* log_sums[kMostMergedParts] = {};
};

cudaError_t MergeAttention(const AttentionParts& parts, void* y, void* log_sums,
                           cudaStream_t stream);

}  // namespace asyra::cuda
