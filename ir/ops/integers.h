// Arithmetic of elements that is defined for every value: integers wrap around
// instead of overflowing. What ops mean, for references and kernels alike.
#pragma once

#include <cstdint>
#include <type_traits>

namespace asyra::ops {

// An integer as one that may overflow; others as they are.
template <typename T>
auto Wrap(T a) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(a);
  } else {
    return a;
  }
}

template <typename T>
T Plus(T a, T b) {
  return static_cast<T>(Wrap(a) + Wrap(b));
}

template <typename T>
T Times(T a, T b) {
  return static_cast<T>(Wrap(a) * Wrap(b));
}

// 0 where integers have no quotient.
template <typename T>
T Divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0 || (b == -1 && a == INT64_MIN)) return 0;
  }
  return a / b;
}

}  // namespace asyra::ops
