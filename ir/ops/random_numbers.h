// Numbers from the words of a random stream, for references and kernels of the
// random ops.
#pragma once

#include <cmath>
#include <cstdint>

#include "ir/support/random.h"
#include "ir/type.h"

namespace asyra::ops {

// Returns the bits of fraction of a uniform number of that type, so that none
// rounds up to 1.
inline int FractionBits(DType dtype) {
  return dtype == DType::kF16 ? 11 : dtype == DType::kBF16 ? 8 : 24;
}

inline double Uniform(uint32_t word, int bits) {
  return std::ldexp(static_cast<double>(word >> (32 - bits)), -bits);
}

// Elements 2i and 2i + 1 are the two normal numbers of their two words (Box
// and Muller).
inline double Normal(RandomStream* stream, int64_t i) {
  uint64_t pair = static_cast<uint64_t>(i) & ~uint64_t{1};
  double radius = (stream->Word(pair) + 1.0) * 0x1p-32;  // in (0, 1]
  double angle = 2 * M_PI * stream->Word(pair + 1) * 0x1p-32;
  return std::sqrt(-2 * std::log(radius)) *
         (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

}  // namespace asyra::ops
