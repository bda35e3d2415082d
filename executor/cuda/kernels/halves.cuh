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

__device__ inline Halves ToHalves(float value) {
  uint32_t bits = __float_as_uint(value);
  Halves halves = {static_cast<uint16_t>(bits >> 16),
                   static_cast<uint16_t>(bits)};
  if (isnan(value)) {
    halves.upper |= 0x40;
    halves.lower = 0;
  } else if (halves.lower == 0x8000 && halves.upper % 2 == 0) {
    halves.lower = 0x7fff;  // halfway, and the upper half is even
  } else if (halves.lower >= 0x8000) {
    ++halves.upper;
  }
  return halves;
}

}  // namespace asyra::cuda
