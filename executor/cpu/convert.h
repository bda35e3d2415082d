// Elements of any type as numbers to compute with, and back.
#pragma once

#include <cstdint>

#include "ir/type.h"

namespace asyra::cpu {

// Instantiated for float, double and int64_t. Rounding is that of ir/tensor.h:
// floats to nearest even; to integers toward zero, within their range; what is
// not 0 is true.
template <typename C>
void Load(DType dtype, const void* from, int64_t count, C* to);
template <typename C>
void Store(DType dtype, const C* from, int64_t count, void* to);

}  // namespace asyra::cpu
