#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

absl::StatusOr<Value> Scaled(Node& node, const Value& value, double factor) {
  if (factor == 1) return value;
  return node.graph().Elementwise(
      "mul", {value, node.graph().Scalar(factor, value.dtype())});
}

}  // namespace

absl::Status Gemm(Node& node) {
  for (int i : {0, 1}) {
    if (node.rank(i) != 2) {
      return Invalid("input {} has rank {}, it should be 2", i, node.rank(i));
    }
  }
  Graph& graph = node.graph();
  double beta = node.Float("beta", 1);
  ASYRA_ASSIGN_OR_RETURN(
      Value matmul, graph.Add("matmul", {node.In(0), node.In(1)},
                              {{"transpose_a", node.Int("transA", 0) != 0},
                               {"transpose_b", node.Int("transB", 0) != 0}}));
  ASYRA_ASSIGN_OR_RETURN(matmul, Scaled(node, matmul, node.Float("alpha", 1)));
  if (!node.Has(2)) return node.Return(matmul);
  ASYRA_ASSIGN_OR_RETURN(Value bias, Scaled(node, node.In(2), beta));
  return node.Return(graph.Elementwise("add", {matmul, bias}));
}

// Imports a matmul as in NumPy: a vector is a row on the left, a column on the
// right, and the dimension it gains is dropped from the result.
absl::Status MatMul(Node& node) {
  Graph& graph = node.graph();
  Value lhs = node.In(0), rhs = node.In(1);
  bool row = lhs.rank() == 1, column = rhs.rank() == 1;
  if (row) {
    ASYRA_ASSIGN_OR_RETURN(lhs, graph.Reshape(lhs, {1, lhs.type().size(0)}));
  }
  if (column) {
    ASYRA_ASSIGN_OR_RETURN(rhs, graph.Reshape(rhs, {rhs.type().size(0), 1}));
  }
  ASYRA_ASSIGN_OR_RETURN(Value matmul, graph.Add("matmul", {lhs, rhs}));
  asyra::Shape shape = matmul.shape();
  if (column) shape.pop_back();
  if (row) shape.erase(shape.end() - (column ? 1 : 2));
  return node.Return(graph.Reshape(matmul, shape));
}

}  // namespace asyra::onnx_import::ops
