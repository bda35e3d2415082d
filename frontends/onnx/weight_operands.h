// Inputs and tensors of a model that are used as weights.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "frontends/onnx/bodies.h"
#include "frontends/onnx/input_dims.h"

namespace asyra::onnx_import {

// An input of the graph or a tensor of the file.
struct WeightSource {
  const GraphInput* input = nullptr;  // null: stored in the file
  int rank = 0;
  int64_t elements = 0;
  // It is a weight operand (stripped_export.h); of the file's tensors also as
  // the first operand of a matmul.
  bool is_operand = false;
  // Nothing but a weight is used so: as a matrix, a table, a kernel.
  bool is_evident = false;
};

// Every float input, and every float tensor of the file of rank 2 and more.
std::vector<WeightSource> FindWeightOperands(
    const onnx::GraphProto& graph, const Body& body, Bodies& bodies,
    absl::Span<const GraphInput> inputs);

}  // namespace asyra::onnx_import
