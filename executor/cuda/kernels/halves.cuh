// The formula of ir/halves.h in device code.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace asyra::cuda {

struct Halves {
  uint16_t upper, lower;
};

__device__ inline float FromHalves(Halves halves) {
  return __uint_as_float(
      (uint32_t{halves.upper} << 16) +
      static_cast<uint32_t>(static_cast<int16_t>(halves.lower)));
}

// Splits without branches: kernels that store params compute it for each
// element.
__device__ inline Halves ToHalves(float value) {
  uint32_t bits = __float_as_uint(value);
  // Halfway, and the upper half is even: one less stays below.
  uint32_t near = bits - ((bits & 0x1ffff) == 0x8000 ? 1 : 0);
  bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return {
      static_cast<uint16_t>(is_nan ? bits >> 16 | 0x40 : (near + 0x8000) >> 16),
      static_cast<uint16_t>(is_nan ? 0 : near)};
}

}  // namespace asyra::cuda
