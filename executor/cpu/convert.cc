#include "executor/cpu/convert.h"

#include <cmath>
#include <limits>

#include "executor/cpu/number.h"

namespace asyra::cpu {
namespace {

template <typename To, typename From>
To Clamped(From value) {
  if (std::isnan(value)) return 0;
  // Both limits are exact in double; the upper one is the first not in range.
  constexpr double kLow = static_cast<double>(std::numeric_limits<To>::min());
  double number = static_cast<double>(value);
  if (number <= kLow) return std::numeric_limits<To>::min();
  if (number >= -kLow) return std::numeric_limits<To>::max();
  return static_cast<To>(number);
}

template <typename N, typename C>
typename N::Stored Stored(C value) {
  using S = typename N::Stored;
  if constexpr (std::is_same_v<N, Number<DType::kBool>>) {
    return value != 0;
  } else if constexpr (std::is_floating_point_v<C> &&
                       std::is_integral_v<typename N::Computed>) {
    return Clamped<S>(value);
  } else {
    return N::Store(static_cast<typename N::Computed>(value));
  }
}

}  // namespace

template <typename C>
void Load(DType dtype, const void* from, int64_t count, C* to) {
  WithNumber(dtype, [&](auto number) {
    using N = decltype(number);
    const auto* stored = static_cast<const typename N::Stored*>(from);
    for (int64_t i = 0; i < count; ++i) {
      to[i] = static_cast<C>(N::Load(stored[i]));
    }
  });
}

template <typename C>
void Store(DType dtype, const C* from, int64_t count, void* to) {
  WithNumber(dtype, [&](auto number) {
    using N = decltype(number);
    auto* stored = static_cast<typename N::Stored*>(to);
    for (int64_t i = 0; i < count; ++i) stored[i] = Stored<N>(from[i]);
  });
}

template void Load(DType, const void*, int64_t, float*);
template void Load(DType, const void*, int64_t, double*);
template void Load(DType, const void*, int64_t, int64_t*);
template void Store(DType, const float*, int64_t, void*);
template void Store(DType, const double*, int64_t, void*);
template void Store(DType, const int64_t*, int64_t, void*);

}  // namespace asyra::cpu
