// Elements picked by index.
#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

// ONNX counts negative indices from the end; `embedding` does not.
absl::StatusOr<Value> NonNegative(Node& node, const Value& indices,
                                  int64_t size) {
  if (!indices.known()) return indices;
  Graph& graph = node.graph();
  Value zero = graph.Scalar(0, indices.dtype());
  Value count = Value::Known(Tensor::FromInts(indices.dtype(), {}, {size}));
  ASYRA_ASSIGN_OR_RETURN(Value negative,
                         graph.Elementwise("less", {indices, zero}));
  if (negative.IsSplatOf(0)) return indices;
  ASYRA_ASSIGN_OR_RETURN(Value shifted,
                         graph.Elementwise("add", {indices, count}));
  return graph.Elementwise("select", {negative, shifted, indices});
}

}  // namespace

absl::Status Gather(Node& node) {
  const Value &table = node.In(0), &indices = node.In(1);
  ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(node.Int("axis", 0), table.rank()));
  bool is_embedding = dim == 0 && table.rank() == 2 && !table.known() &&
                      IsFloat(table.dtype()) && node.graph().IsWeight(table);
  if (is_embedding) {
    ASYRA_ASSIGN_OR_RETURN(Value ids,
                           NonNegative(node, indices, table.type().size(0)));
    return node.Return(node.graph().Add("embedding", {table, ids}));
  }
  return node.Return(
      node.graph().Add("gather", {table, indices}, {{"dim", int64_t{dim}}}));
}

absl::Status GatherElements(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(node.Int("axis", 0), node.rank()));
  return node.Return(node.graph().Add(
      "gather_elements", {node.In(0), node.In(1)}, {{"dim", int64_t{dim}}}));
}

absl::Status GatherND(Node& node) {
  return node.Return(
      node.graph().Add("gather_nd", {node.In(0), node.In(1)},
                       {{"batch_dims", node.Int("batch_dims", 0)}}));
}

}  // namespace asyra::onnx_import::ops
