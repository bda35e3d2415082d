// Rotary position embedding (ir/ops/rotary.cc) on the GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

// x [rows, heads, size], dense; cos and sin [angles, half], where row r has
// the angles r % angles. The first 2 * half elements of a head are rotated:
// i with i + half, or interleaved 2i with 2i + 1; the others are kept.
struct Rotary {
  Element element = Element::kBF16;  // of all, a float
  int64_t rows = 0, heads = 0, size = 0, half = 0, angles = 0;
  bool interleaved = false;
};

// All addresses are aligned to 16 bytes; `to` may be `x`.
cudaError_t Rotate(const Rotary& rotary, const void* x, const void* cos,
                   const void* sin, void* to, cudaStream_t stream);

}  // namespace asyra::cuda
