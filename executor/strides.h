// Strides of dense tensors in memory.
#pragma once

#include "ir/type.h"

namespace asyra {

// Strides in elements of a dense operand of shape `from` that broadcasts to
// `to` as in NumPy: 0 where it is repeated.
inline Shape BroadcastStrides(const Shape& from, const Shape& to) {
  Shape strides(to.size(), 0);
  int64_t stride = 1;
  for (size_t i = 1; i <= from.size(); ++i) {
    int64_t size = from[from.size() - i];
    strides[to.size() - i] = size == 1 ? 0 : stride;
    stride *= size;
  }
  return strides;
}

inline Shape DenseStrides(const Shape& shape) {
  return BroadcastStrides(shape, shape);
}

}  // namespace asyra
