#include "frontends/onnx/narrow_type.h"

#include "onnx/onnx.pb.h"

namespace asyra::onnx_import {
namespace {

using onnx::TensorProto;

constexpr NarrowType kTypes[] = {
    {TensorProto::UINT8, "UINT8", 1, false, DType::kI32},
    {TensorProto::INT8, "INT8", 1, true, DType::kI32},
    {TensorProto::UINT16, "UINT16", 2, false, DType::kI32},
    {TensorProto::INT16, "INT16", 2, true, DType::kI32},
    {TensorProto::UINT32, "UINT32", 4, false, DType::kI64},
};

}  // namespace

int64_t NarrowType::low() const {
  return is_signed ? -(int64_t{1} << (8 * bytes - 1)) : 0;
}

int64_t NarrowType::high() const {
  return (int64_t{1} << (8 * bytes - (is_signed ? 1 : 0))) - 1;
}

const NarrowType* FindNarrowType(int64_t data_type) {
  for (const NarrowType& type : kTypes) {
    if (type.onnx == data_type) return &type;
  }
  return nullptr;
}

}  // namespace asyra::onnx_import
