// Sizes and offsets as multiples of an alignment.
#pragma once

#include <cstdint>

namespace asyra {

// The least multiple of `to`, which is positive, that is at least `value`,
// which is not negative.
constexpr int64_t RoundUp(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace asyra
