// Descriptors of values for the copy engines of Hopper's SMs (TMA).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "executor/cuda/device/element.h"

namespace asyra::cuda {

#include "executor/cuda/hopper/tensor_map_words.cuh"

// A value [batch, rows, heads, width] of bf16, f16 or f32, dense, at `data`.
// Boxes are one head's `box_rows` rows of 128 bytes, at most 256, in shared
// memory with the 128-byte swizzle; what lies outside is read as 0 and not
// written. Rows and strides are multiples of 16 bytes.
struct HeadsMap {
  const void* data = nullptr;
  Element element = Element::kBF16;
  int64_t batch = 0, rows = 0, heads = 0, width = 0;
  int box_rows = 0;
  // Elements from one row, head and batch entry to the next; 0: dense.
  int64_t row_stride = 0, head_stride = 0, batch_stride = 0;
};
absl::Status Encode(const HeadsMap& heads, TensorMap* map);

}  // namespace asyra::cuda
