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

// Index along `dim` of every element, as a column [..., 1] to be joined.
absl::StatusOr<Value> AsColumn(Node& node, const Value& indices) {
  asyra::Shape shape = indices.shape();
  shape.push_back(1);
  return node.graph().Reshape(indices, shape);
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

// out[i, j, k] = x[i, indices[i, j, k], k] for axis 1: a gather_nd whose other
// coordinates count along.
absl::Status GatherElements(Node& node) {
  const Value& indices = node.In(1);
  ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(node.Int("axis", 0), node.rank()));
  if (indices.rank() != node.rank()) {
    return Invalid("the indices have rank {}, the input {}", indices.rank(),
                   node.rank());
  }
  std::vector<Value> columns;
  for (int i = 0; i < node.rank(); ++i) {
    absl::StatusOr<Value> column = indices;
    if (i != dim) {
      column = node.graph().Iota(indices.shape(), i, indices.dtype());
      if (!column.ok()) return column.status();
    }
    column = AsColumn(node, *column);
    if (!column.ok()) return column.status();
    columns.push_back(*std::move(column));
  }
  ASYRA_ASSIGN_OR_RETURN(
      Value coordinates,
      node.graph().Add("concat", columns, {{"dim", int64_t{node.rank()}}}));
  return node.Return(node.graph().Add("gather_nd", {node.In(0), coordinates}));
}

absl::Status GatherND(Node& node) {
  return node.Return(
      node.graph().Add("gather_nd", {node.In(0), node.In(1)},
                       {{"batch_dims", node.Int("batch_dims", 0)}}));
}

}  // namespace asyra::onnx_import::ops
