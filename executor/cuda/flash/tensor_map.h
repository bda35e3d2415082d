// Descriptors of values for the copy engines of Hopper's SMs (TMA).
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace asyra::cuda {

#include "executor/cuda/flash/flash_params.cuh"

// A value [batch, rows, heads, width] of 16-bit elements, dense, at `data`.
// Boxes are one head's `box_rows` rows of 64 elements, in shared memory with
// the 128-byte swizzle; what lies outside is 0. `width` is a multiple of 8.
struct HeadsMap {
  const void* data = nullptr;
  bool bf16 = true;
  int64_t batch = 0, rows = 0, heads = 0, width = 0;
  int box_rows = 0;
};
absl::Status Encode(const HeadsMap& heads, TensorMap* map);

}  // namespace asyra::cuda
