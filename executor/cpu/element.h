// Single elements of any type, for kernels that access them in irregular order,
// and lines of them.
#pragma once

#include <cstring>

#include "executor/cpu/convert.h"
#include "ir/type.h"

namespace asyra::cpu {

inline const std::byte* ElementAt(DType dtype, const void* data, int64_t i) {
  return static_cast<const std::byte*>(data) + i * SizeOf(dtype);
}
inline std::byte* ElementAt(DType dtype, void* data, int64_t i) {
  return static_cast<std::byte*>(data) + i * SizeOf(dtype);
}

// Returns element i of integers or bools.
inline int64_t IntegerAt(DType dtype, const void* data, int64_t i) {
  int64_t value = 0;
  switch (dtype) {
    case DType::kI64:
      std::memcpy(&value, ElementAt(dtype, data, i), sizeof(value));
      return value;
    case DType::kI32: {
      int32_t narrow = 0;
      std::memcpy(&narrow, ElementAt(dtype, data, i), sizeof(narrow));
      return narrow;
    }
    default:
      Load(dtype, ElementAt(dtype, data, i), 1, &value);
      return value;
  }
}

// [outer, size, inner] around the dimensions [begin, end) of a type.
struct Around {
  int64_t outer = 1, size = 1, inner = 1;
  Around(const Type& type, int begin, int end) {
    for (int d = 0; d < begin; ++d) outer *= type.size(d);
    for (int d = begin; d < end; ++d) size *= type.size(d);
    for (int d = end; d < type.rank(); ++d) inner *= type.size(d);
  }
};

// Elements `stride` apart, as numbers to compute with, and back.
template <typename C>
void LoadLine(DType dtype, const void* data, int64_t first, int64_t stride,
              int64_t count, C* to) {
  if (stride == 1) return Load(dtype, ElementAt(dtype, data, first), count, to);
  for (int64_t i = 0; i < count; ++i) {
    Load(dtype, ElementAt(dtype, data, first + i * stride), 1, to + i);
  }
}
template <typename C>
void StoreLine(DType dtype, const C* from, int64_t count, void* data,
               int64_t first, int64_t stride) {
  if (stride == 1) {
    return Store(dtype, from, count, ElementAt(dtype, data, first));
  }
  for (int64_t i = 0; i < count; ++i) {
    Store(dtype, from + i, 1, ElementAt(dtype, data, first + i * stride));
  }
}

}  // namespace asyra::cpu
