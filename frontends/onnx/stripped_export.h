// Models that are exported without their weights: the weight operands of
// matmuls, lookups and convolutions are inputs of the graph.
#pragma once

#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "frontends/onnx/bodies.h"
#include "frontends/onnx/input_dims.h"

namespace asyra::onnx_import {

// The inputs that are weights if the file is a stripped export, else none.
// Views of the names in `inputs`. Only float inputs of static shape are
// considered.
//
// A weight operand is the second operand of MatMul, Gemm, Einsum, Conv and
// similar ops, or the table of a Gather. It is followed back through casts,
// transposes, slices and similar ops, into functions and subgraphs. The file is
// a stripped export when
// - matrices among the inputs are weight operands (operands of higher rank may
//   be a batch of data, keys and values for example, unless a part is taken
//   out of them),
// - the file itself stores next to nothing for such operands, and
// - something is left that is surely data: an input of integers or bools, one
//   with a symbolic dimension, or few inputs beside many matrices.
// Its weights are then the inputs that are weight operands, and the used ones
// of rank 1: biases, scales of norms.
absl::flat_hash_set<std::string_view> StrippedWeights(
    const onnx::GraphProto& graph, const Body& body, Bodies& bodies,
    absl::Span<const GraphInput> inputs);

}  // namespace asyra::onnx_import
