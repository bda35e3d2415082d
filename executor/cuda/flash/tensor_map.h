// Descriptors of values for the copy engines of Hopper's SMs (TMA).
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace asyra::cuda {

// Opaque to all but the driver and device code.
struct alignas(64) TensorMap {
  uint64_t words[16];
};

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
