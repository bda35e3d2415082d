// Sizes and offsets as multiples of others.
#pragma once

#include <cstdint>

namespace asyra {

// The least multiple of `to`, which is positive, that is at least `value`,
// which is not negative.
constexpr int64_t RoundUp(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

// Returns how many of `by` hold `value`, under the same conditions.
constexpr int64_t DivideUp(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

}  // namespace asyra
