// Elements picked by index.
#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {

absl::Status Gather(Node& node) {
  const Value &table = node.In(0), &indices = node.In(1);
  ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(node.Int("axis", 0), table.rank()));
  bool is_embedding = dim == 0 && table.rank() == 2 && !table.known() &&
                      IsFloat(table.dtype()) && node.graph().IsWeight(table);
  if (is_embedding) {
    return node.Return(node.graph().Add("embedding", {table, indices}));
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
