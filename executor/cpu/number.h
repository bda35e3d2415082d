// Element types in cpu kernels: the type of a stored element, and the type of
// computation.
#pragma once

#include <cstdint>

#include "ir/tensor.h"

namespace asyra::cpu {

template <DType dtype>
struct Number;

#define ASYRA_PLAIN_NUMBER(DTYPE, STORED, COMPUTED)                     \
  template <>                                                           \
  struct Number<DTYPE> {                                                \
    using Stored = STORED;                                              \
    using Computed = COMPUTED;                                          \
    static COMPUTED Load(STORED x) { return static_cast<COMPUTED>(x); } \
    static STORED Store(COMPUTED x) { return static_cast<STORED>(x); }  \
  }
ASYRA_PLAIN_NUMBER(DType::kI32, int32_t, int64_t);
ASYRA_PLAIN_NUMBER(DType::kI64, int64_t, int64_t);
ASYRA_PLAIN_NUMBER(DType::kF32, float, float);
ASYRA_PLAIN_NUMBER(DType::kF64, double, double);
#undef ASYRA_PLAIN_NUMBER

template <>
struct Number<DType::kBool> {
  using Stored = uint8_t;
  using Computed = int64_t;
  static int64_t Load(uint8_t x) { return x != 0; }
  static uint8_t Store(int64_t x) { return x != 0; }
};

template <>
struct Number<DType::kF16> {
  using Stored = uint16_t;
  using Computed = float;
  static float Load(uint16_t x) { return HalfToFloat(x); }
  static uint16_t Store(float x) { return FloatToHalf(x); }
};

template <>
struct Number<DType::kBF16> {
  using Stored = uint16_t;
  using Computed = float;
  static float Load(uint16_t x) { return BFloat16ToFloat(x); }
  static uint16_t Store(float x) { return FloatToBFloat16(x); }
};

// Calls visit(Number<dtype>{}) with the type's description.
template <typename Visit>
decltype(auto) WithNumber(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kBool:
      return visit(Number<DType::kBool>{});
    case DType::kI32:
      return visit(Number<DType::kI32>{});
    case DType::kI64:
      return visit(Number<DType::kI64>{});
    case DType::kF16:
      return visit(Number<DType::kF16>{});
    case DType::kBF16:
      return visit(Number<DType::kBF16>{});
    case DType::kF64:
      return visit(Number<DType::kF64>{});
    case DType::kF32:
      break;
  }
  return visit(Number<DType::kF32>{});
}

}  // namespace asyra::cpu
