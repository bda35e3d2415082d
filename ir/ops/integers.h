// Arithmetic of elements that is defined for every value: integers wrap around
// instead of overflowing, and NaN stays NaN. Shared by references and kernels.
#pragma once

#include <cmath>
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

template <typename T>
T Power(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    uint64_t power = 1, square = Wrap(a);
    for (uint64_t rest = Wrap(b); rest > 0; rest >>= 1, square *= square) {
      if (rest & 1) power *= square;
    }
    return static_cast<T>(power);
  } else {
    return std::pow(a, b);
  }
}

// Returns the same as NumPy's maximum or minimum: NaN if either is NaN.
template <typename T>
T Maximum(T a, T b) {
  return a < b || b != b ? b : a;
}

template <typename T>
T Minimum(T a, T b) {
  return b < a || b != b ? b : a;
}

// The remainder has the sign of b or, truncated, that of a; 0 where integers
// have none.
template <bool truncated, typename T>
T Remainder(T a, T b) {
  T rest{};
  if constexpr (std::is_integral_v<T>) {
    if (b == 0 || b == -1) return 0;
    rest = a % b;
  } else {
    rest = std::fmod(a, b);
  }
  return !truncated && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

}  // namespace asyra::ops
