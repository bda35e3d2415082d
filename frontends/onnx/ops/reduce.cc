#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

absl::StatusOr<Value> ReduceOver(Node& node, Ints dims, bool keep) {
  Graph& graph = node.graph();
  Value value = node.In(0);
  std::string op(node.ir_op());
  bool root = op == "l2";
  if (root || op == "square") {
    ASYRA_ASSIGN_OR_RETURN(value, graph.Elementwise("mul", {value, value}));
    op = "reduce_sum";
  } else if (op == "l1") {
    ASYRA_ASSIGN_OR_RETURN(value, graph.Elementwise("abs", {value}));
    op = "reduce_sum";
  } else if (op == "log") {
    op = "reduce_sum";
  }
  if (!dims.empty()) {
    ASYRA_ASSIGN_OR_RETURN(
        value,
        graph.Add(op, {value}, {{"dims", std::move(dims)}, {"keep", keep}}));
  }
  if (root) return graph.Elementwise("sqrt", {value});
  return node.ir_op() == "log" ? graph.Elementwise("log", {value}) : value;
}

absl::Status Reduce(Node& node, const Ints& axes) {
  bool keep = node.Int("keepdims", 1) != 0;
  bool nothing = node.Int("noop_with_empty_axes", 0) != 0 && axes.empty();
  Ints dims;
  for (int64_t axis : axes) {
    ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(axis, node.rank()));
    dims.push_back(dim);
  }
  // Without axes, the elementwise part of ReduceL2 remains.
  for (int i = 0; axes.empty() && !nothing && i < node.rank(); ++i) {
    dims.push_back(i);
  }
  std::sort(dims.begin(), dims.end());
  return node.Return(ReduceOver(node, std::move(dims), keep));
}

}  // namespace

absl::Status ReduceAttr(Node& node) {
  return Reduce(node, node.IntList("axes"));
}

absl::Status ReduceInput(Node& node) {
  Ints axes;
  if (node.Has(1)) {
    ASYRA_ASSIGN_OR_RETURN(axes, node.KnownInts(1, "axes"));
  }
  return Reduce(node, axes);
}

// softmax and log_softmax
absl::Status Softmax(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(node.Int("axis", -1), node.rank()));
  return node.Return(
      node.graph().Add(node.ir_op(), {node.In(0)}, {{"dim", int64_t{dim}}}));
}

absl::Status CumSum(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(Ints axis, node.KnownInts(1, "axis"));
  if (axis.size() != 1) return Invalid("{} axes", axis.size());
  ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(axis[0], node.rank()));
  return node.Return(
      node.graph().Add("cumsum", {node.In(0)},
                       {{"dim", int64_t{dim}},
                        {"exclusive", node.Int("exclusive", 0) != 0},
                        {"reverse", node.Int("reverse", 0) != 0}}));
}

}  // namespace asyra::onnx_import::ops
