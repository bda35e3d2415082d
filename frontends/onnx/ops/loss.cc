#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

Ints AllDims(const Value& value) {
  Ints dims;
  for (int d = 0; d < value.rank(); ++d) dims.push_back(d);
  return dims;
}

absl::StatusOr<Value> SumAll(Node& node, const Value& value) {
  if (value.rank() == 0) return value;
  return node.graph().Add("reduce_sum", {value},
                          {{"dims", AllDims(value)}, {"keep", false}});
}

// The mean of the losses whose label counts.
absl::StatusOr<Value> Mean(Node& node, const Value& losses) {
  Graph& graph = node.graph();
  if (!node.HasAttr("ignore_index")) {
    return graph.Add("reduce_mean", {losses},
                     {{"dims", AllDims(losses)}, {"keep", false}});
  }
  Value ignored = Value::Known(
      Tensor::FromInts(node.dtype(1), {}, {node.Int("ignore_index", 0)}));
  ASYRA_ASSIGN_OR_RETURN(Value counts,
                         graph.Elementwise("equal", {node.In(1), ignored}));
  ASYRA_ASSIGN_OR_RETURN(counts, graph.Elementwise("not", {counts}));
  ASYRA_ASSIGN_OR_RETURN(counts, graph.Cast(counts, losses.dtype()));
  ASYRA_ASSIGN_OR_RETURN(Value count, SumAll(node, counts));
  ASYRA_ASSIGN_OR_RETURN(Value sum, SumAll(node, losses));
  return graph.Elementwise("div", {sum, count});
}

}  // namespace

// Of scores [N, C, ...] and labels [N, ...]; output 1 is their log_softmax.
absl::Status SoftmaxCrossEntropyLoss(Node& node) {
  if (node.rank() < 2) return Invalid("input 0 has rank {}", node.rank());
  if (node.Has(2)) {
    return Unimplemented("input 2, weights of classes, is not supported");
  }
  Graph& graph = node.graph();
  Ints perm = AllDims(node.In(0));
  perm.erase(perm.begin() + 1);
  perm.push_back(1);
  ASYRA_ASSIGN_OR_RETURN(Value scores, graph.Transpose(node.In(0), perm));
  // A label that no class has ignores nothing.
  int64_t ignored = node.Int("ignore_index", INT64_MIN);
  ASYRA_ASSIGN_OR_RETURN(Value losses,
                         graph.Add("cross_entropy", {scores, node.In(1)},
                                   {{"ignore_index", ignored}}));
  if (node.WantsOutput(1)) {
    ASYRA_RETURN_IF_ERROR(node.SetOutput(
        1, graph.Add("log_softmax", {node.In(0)}, {{"dim", int64_t{1}}})));
  }
  std::string reduction = node.String("reduction", "mean");
  if (reduction == "none") return node.Return(losses);
  if (reduction == "sum") return node.Return(SumAll(node, losses));
  if (reduction == "mean") return node.Return(Mean(node, losses));
  return Invalid("attribute reduction is '{}', not mean, none or sum",
                 reduction);
}

}  // namespace asyra::onnx_import::ops
