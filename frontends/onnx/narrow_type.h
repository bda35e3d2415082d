// Integer types that the IR does not have. Constants of them are carried as
// wider integers, which hold every value, until a Cast takes them to a type
// that the IR has; masks and lookup tables are stored so.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/type.h"

namespace asyra::onnx_import {

struct NarrowType {
  int32_t onnx;  // onnx::TensorProto::DataType
  std::string_view name;
  int bytes;
  bool is_signed;
  DType carrier;

  int64_t low() const;
  int64_t high() const;
};

// Null for types of the IR and for unknown types.
const NarrowType* FindNarrowType(int64_t data_type);

}  // namespace asyra::onnx_import
