// Activations with attributes, and those composed of other IR ops.
#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

absl::StatusOr<Value> With(Node& node, std::string_view op, const Value& value,
                           double scalar) {
  return node.graph().Elementwise(
      op, {value, node.graph().Scalar(scalar, value.dtype())});
}

// a * value + b
absl::StatusOr<Value> Line(Node& node, const Value& value, double a, double b) {
  ASYRA_ASSIGN_OR_RETURN(Value scaled, With(node, "mul", value, a));
  return b == 0 ? scaled : With(node, "add", scaled, b);
}

absl::StatusOr<Value> IfPositive(Node& node, const Value& yes,
                                 const Value& no) {
  Value zero = node.graph().Scalar(0, node.dtype());
  ASYRA_ASSIGN_OR_RETURN(Value positive,
                         node.graph().Elementwise("less", {zero, node.In(0)}));
  return node.graph().Elementwise("select", {positive, yes, no});
}

}  // namespace

absl::Status Elu(Node& node) {
  return node.Return(node.graph().Elementwise(
      "elu", {node.In(0)}, {{"alpha", node.Float("alpha", 1)}}));
}

absl::Status LeakyRelu(Node& node) {
  return node.Return(node.graph().Elementwise(
      "leaky_relu", {node.In(0)}, {{"slope", node.Float("alpha", 0.01)}}));
}

absl::Status PRelu(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(
      Value scaled, node.graph().Elementwise("mul", {node.In(0), node.In(1)}));
  return node.Return(IfPositive(node, node.In(0), scaled));
}

absl::Status Selu(Node& node) {
  double alpha = node.Float("alpha", 1.67326319217681884765625);
  double gamma = node.Float("gamma", 1.05070102214813232421875);
  ASYRA_ASSIGN_OR_RETURN(
      Value elu,
      node.graph().Elementwise("elu", {node.In(0)}, {{"alpha", alpha}}));
  return node.Return(With(node, "mul", elu, gamma));
}

// alpha * elu(x / alpha)
absl::Status Celu(Node& node) {
  double alpha = node.Float("alpha", 1);
  ASYRA_ASSIGN_OR_RETURN(Value x, With(node, "div", node.In(0), alpha));
  ASYRA_ASSIGN_OR_RETURN(Value elu, node.graph().Elementwise("elu", {x}));
  return node.Return(With(node, "mul", elu, alpha));
}

absl::Status ThresholdedRelu(Node& node) {
  Value least = node.graph().Scalar(node.Float("alpha", 1), node.dtype());
  ASYRA_ASSIGN_OR_RETURN(Value above,
                         node.graph().Elementwise("less", {least, node.In(0)}));
  return node.Return(node.graph().Elementwise(
      "select", {above, node.In(0), node.graph().Scalar(0, node.dtype())}));
}

absl::Status HardSigmoid(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(Value line,
                         Line(node, node.In(0), node.Float("alpha", 0.2),
                              node.Float("beta", 0.5)));
  ASYRA_ASSIGN_OR_RETURN(line, With(node, "max", line, 0));
  return node.Return(With(node, "min", line, 1));
}

absl::Status Softsign(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(Value size,
                         node.graph().Elementwise("abs", {node.In(0)}));
  ASYRA_ASSIGN_OR_RETURN(size, With(node, "add", size, 1));
  return node.Return(node.graph().Elementwise("div", {node.In(0), size}));
}

absl::Status Mod(Node& node) {
  bool truncated = node.Int("fmod", 0) != 0;
  return node.Return(node.graph().Elementwise("mod", node.Inputs(),
                                              {{"truncated", truncated}}));
}

absl::Status IsInf(Node& node) {
  bool negative = node.Int("detect_negative", 1) != 0;
  bool positive = node.Int("detect_positive", 1) != 0;
  Graph& graph = node.graph();
  ASYRA_ASSIGN_OR_RETURN(Value result,
                         graph.Elementwise("is_inf", {node.In(0)}));
  if (negative && positive) return node.Return(result);
  Value zero = graph.Scalar(0, node.dtype());
  if (!positive) {
    ASYRA_ASSIGN_OR_RETURN(Value sign,
                           graph.Elementwise("less", {node.In(0), zero}));
    ASYRA_ASSIGN_OR_RETURN(result, graph.Elementwise("and", {result, sign}));
  }
  if (!negative) {
    ASYRA_ASSIGN_OR_RETURN(Value sign,
                           graph.Elementwise("less", {zero, node.In(0)}));
    ASYRA_ASSIGN_OR_RETURN(result, graph.Elementwise("and", {result, sign}));
  }
  return node.Return(result);
}

}  // namespace asyra::onnx_import::ops
