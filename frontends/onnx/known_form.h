// Regular tensors as formulas: exported models store position indices and
// causal masks as data; a program computes them.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/tensor.h"

namespace asyra::onnx_import {

// start + step * index along `dim`; the other dimensions have size 1.
struct LineForm {
  int dim = 0;
  int64_t start = 0;
  int64_t step = 1;
};
// Finds the form of four elements or more, i32, i64, f32 or f64, with whole
// values.
std::optional<LineForm> AsLine(const Tensor& data);

// True where column <= row + diagonal; the other dimensions have size 1.
struct TriangleForm {
  int row_dim = 0;
  int column_dim = 1;
  int64_t diagonal = 0;
};
// Finds the form of a tensor of type bool.
std::optional<TriangleForm> AsTriangle(const Tensor& data);

}  // namespace asyra::onnx_import
