// Scatter of elements by index, and indices of the largest elements.
#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {

absl::Status ScatterElements(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(node.Int("axis", 0), node.rank()));
  return node.Return(
      node.graph().Add("scatter_elements", node.Inputs(),
                       {{"dim", int64_t{dim}},
                        {"reduction", node.String("reduction", "none")}}));
}

absl::Status ScatterND(Node& node) {
  return node.Return(
      node.graph().Add("scatter_nd", node.Inputs(),
                       {{"reduction", node.String("reduction", "none")}}));
}

// values[1] at the index, values[0] elsewhere.
absl::Status OneHot(Node& node) {
  Graph& graph = node.graph();
  node.TakeNumber(1);
  if (!node.In(1).is_splat()) {
    return Unimplemented("depth must be a known scalar");
  }
  int64_t depth = node.In(1).data().GetInt(0);  // it may be of a float type
  ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(node.Int("axis", -1), node.rank() + 1));
  if (node.type(2).num_elements() != 2 || node.rank(2) != 1) {
    return Invalid("values have shape {}, not [2]",
                   ShapeToString(node.In(2).shape()));
  }
  Value indices = node.In(0);
  if (IsFloat(indices.dtype())) {
    ASYRA_ASSIGN_OR_RETURN(indices, graph.Cast(indices, DType::kI64));
  }
  ASYRA_ASSIGN_OR_RETURN(Value hot, graph.Add("one_hot", {indices},
                                              {{"depth", depth},
                                               {"dim", int64_t{dim}},
                                               {"dtype", DType::kBool}}));
  ASYRA_ASSIGN_OR_RETURN(Value off, graph.Slice(node.In(2), 0, 0, 1));
  ASYRA_ASSIGN_OR_RETURN(Value on, graph.Slice(node.In(2), 0, 1, 2));
  if (off.IsSplatOf(0) && on.IsSplatOf(1)) {
    return node.Return(graph.Cast(hot, on.dtype()));
  }
  return node.Return(graph.Elementwise("select", {hot, on, off}));
}

absl::Status TopK(Node& node) {
  node.Ignore("sorted");  // they always are
  ASYRA_ASSIGN_OR_RETURN(Ints k, node.KnownInts(1, "k"));
  if (k.size() != 1) return Invalid("k has {} elements", k.size());
  ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(node.Int("axis", -1), node.rank()));
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<Value> results,
      node.graph().AddMany("top_k", {node.In(0)},
                           {{"k", k[0]},
                            {"dim", int64_t{dim}},
                            {"largest", node.Int("largest", 1) != 0}}));
  ASYRA_RETURN_IF_ERROR(node.SetOutput(0, results[0]));
  return node.SetOutput(1, results[1]);
}

// arg_max and arg_min
absl::Status Arg(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(node.Int("axis", 0), node.rank()));
  return node.Return(
      node.graph().Add(node.ir_op(), {node.In(0)},
                       {{"dim", int64_t{dim}},
                        {"keep", node.Int("keepdims", 1) != 0},
                        {"last", node.Int("select_last_index", 0) != 0}}));
}

}  // namespace asyra::onnx_import::ops
