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

// Labels of a loss, and what each of them counts.
struct Labels {
  Value safe;                   // a class also where the label is ignored
  std::optional<Value> weight;  // 0 where it is; none: 1 for all
};

// Weights have the type `dtype`.
absl::StatusOr<Labels> LabelsOf(Node& node, DType dtype) {
  Graph& graph = node.graph();
  Labels labels{.safe = node.In(1), .weight = std::nullopt};
  Value counts;
  bool ignores = node.HasAttr("ignore_index");
  if (ignores) {
    auto known = [&](int64_t number) {
      return Value::Known(Tensor::FromInts(node.dtype(1), {}, {number}));
    };
    ASYRA_ASSIGN_OR_RETURN(
        Value ignored,
        graph.Elementwise("equal",
                          {node.In(1), known(node.Int("ignore_index", 0))}));
    ASYRA_ASSIGN_OR_RETURN(
        labels.safe,
        graph.Elementwise("select", {ignored, known(0), node.In(1)}));
    ASYRA_ASSIGN_OR_RETURN(counts, graph.Elementwise("not", {ignored}));
    ASYRA_ASSIGN_OR_RETURN(counts, graph.Cast(counts, dtype));
    labels.weight = counts;
  }
  if (!node.Has(2)) return labels;
  graph.MarkConstant(node.In(2), "weights of the classes of a loss");
  ASYRA_ASSIGN_OR_RETURN(
      Value weight,
      graph.Add("gather", {node.In(2), labels.safe}, {{"dim", int64_t{0}}}));
  if (ignores) {
    ASYRA_ASSIGN_OR_RETURN(weight, graph.Elementwise("mul", {weight, counts}));
  }
  labels.weight = weight;
  return labels;
}

// Reduces weighted losses; a mean divides their sum by that of the weights.
absl::Status Reduce(Node& node, const Value& losses, const Labels& labels) {
  std::string reduction = node.String("reduction", "mean");
  if (reduction == "none") return node.Return(losses);
  if (reduction == "sum") return node.Return(SumAll(node, losses));
  if (reduction != "mean") {
    return Invalid("attribute reduction is '{}', not mean, none or sum",
                   reduction);
  }
  if (!labels.weight.has_value()) {
    return node.Return(node.graph().Add(
        "reduce_mean", {losses}, {{"dims", AllDims(losses)}, {"keep", false}}));
  }
  ASYRA_ASSIGN_OR_RETURN(Value weight, SumAll(node, *labels.weight));
  ASYRA_ASSIGN_OR_RETURN(Value sum, SumAll(node, losses));
  return node.Return(node.graph().Elementwise("div", {sum, weight}));
}

absl::Status CheckLabels(const Node& node) {
  if (node.rank() < 2) return Invalid("input 0 has rank {}", node.rank());
  asyra::Shape labels = node.In(0).shape();
  labels.erase(labels.begin() + 1);
  if (node.In(1).shape() != labels) {
    return Invalid("labels are {}, for scores {} they should be {}",
                   ShapeToString(node.In(1).shape()),
                   ShapeToString(node.In(0).shape()), ShapeToString(labels));
  }
  asyra::Shape classes = {node.In(0).shape()[1]};
  if (!node.Has(2) || node.In(2).shape() == classes) return absl::OkStatus();
  return Invalid("weights of classes are {}, for scores {} they should be {}",
                 ShapeToString(node.In(2).shape()),
                 ShapeToString(node.In(0).shape()), ShapeToString(classes));
}

}  // namespace

// Imports the loss of scores [N, C, ...] and labels [N, ...]; output 1 is their
// log_softmax.
absl::Status SoftmaxCrossEntropyLoss(Node& node) {
  ASYRA_RETURN_IF_ERROR(CheckLabels(node));
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
  ASYRA_ASSIGN_OR_RETURN(Labels labels, LabelsOf(node, losses.dtype()));
  if (node.Has(2)) {
    ASYRA_ASSIGN_OR_RETURN(losses,
                           graph.Elementwise("mul", {losses, *labels.weight}));
  }
  return Reduce(node, losses, labels);
}

// Reads logarithms of probabilities [N, C, ...] and labels [N, ...].
absl::Status NegativeLogLikelihoodLoss(Node& node) {
  ASYRA_RETURN_IF_ERROR(CheckLabels(node));
  Graph& graph = node.graph();
  ASYRA_ASSIGN_OR_RETURN(Labels labels, LabelsOf(node, node.dtype()));
  asyra::Shape one_class = node.In(0).shape();
  one_class[1] = 1;
  ASYRA_ASSIGN_OR_RETURN(Value indices, graph.Reshape(labels.safe, one_class));
  ASYRA_ASSIGN_OR_RETURN(Value losses,
                         graph.Add("gather_elements", {node.In(0), indices},
                                   {{"dim", int64_t{1}}}));
  ASYRA_ASSIGN_OR_RETURN(losses, graph.Reshape(losses, node.In(1).shape()));
  ASYRA_ASSIGN_OR_RETURN(losses, graph.Elementwise("neg", {losses}));
  if (labels.weight.has_value()) {
    ASYRA_ASSIGN_OR_RETURN(losses,
                           graph.Elementwise("mul", {losses, *labels.weight}));
  }
  return Reduce(node, losses, labels);
}

}  // namespace asyra::onnx_import::ops
