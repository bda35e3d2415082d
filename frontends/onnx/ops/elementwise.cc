#include "frontends/onnx/narrow_type.h"
#include "frontends/onnx/ops/ops.h"
#include "frontends/onnx/tensor_proto.h"

namespace asyra::onnx_import::ops {
namespace {

// The first input and attribute-like inputs of opset 11 and later, which are
// scalars of its type.
absl::StatusOr<Value> WithScalar(Node& node, std::string_view op,
                                 const Value& value, double scalar) {
  return node.graph().Elementwise(
      op, {value, node.graph().Scalar(scalar, value.dtype())});
}

absl::StatusOr<Value> FoldAll(Node& node, std::string_view op,
                              const std::vector<Value>& values) {
  if (values.empty()) return Invalid("there is no input");
  Value result = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(result,
                           node.graph().Elementwise(op, {result, values[i]}));
  }
  return result;
}

absl::StatusOr<Value> CastTo(Node& node, DType dtype) {
  ASYRA_ASSIGN_OR_RETURN(Value value, node.graph().Cast(node.In(0), dtype));
  value.set_narrow(nullptr);
  return value;
}

// The importer checks that the values fit.
absl::Status CastToNarrow(Node& node, const NarrowType& narrow) {
  ASYRA_ASSIGN_OR_RETURN(Value value, CastTo(node, narrow.carrier));
  value.set_narrow(&narrow);
  return node.Return(value);
}

}  // namespace

absl::StatusOr<Value> AddAll(Node& node, const std::vector<Value>& values) {
  return FoldAll(node, "add", values);
}

absl::Status Elementwise(Node& node) {
  return node.Return(node.graph().Elementwise(node.ir_op(), node.Inputs()));
}

absl::Status ElementwiseFold(Node& node) {
  return node.Return(FoldAll(node, node.ir_op(), node.Inputs()));
}

absl::Status And(Node& node) {
  // Exporters write masks as "ones and causal and ...".
  for (int i : {0, 1}) {
    if (node.In(i).IsSplatOf(1) && node.dtype(1 - i) == DType::kBool) {
      absl::StatusOr<Value> both =
          node.graph().Elementwise("and", {node.In(0), node.In(1)});
      if (!both.ok()) return both.status();
      return node.Return(node.graph().Broadcast(node.In(1 - i), both->shape()));
    }
  }
  return node.Return(node.graph().Elementwise("and", node.Inputs()));
}

// The types may differ: the result has the base's, and an integer to the power
// of a float is computed in the float's.
absl::Status Pow(Node& node) {
  Graph& graph = node.graph();
  Value base = node.In(0), exponent = node.In(1);
  if (IsFloat(exponent.dtype()) && !IsFloat(base.dtype())) {
    ASYRA_ASSIGN_OR_RETURN(base, graph.Cast(base, exponent.dtype()));
  } else {
    ASYRA_ASSIGN_OR_RETURN(exponent, graph.Cast(exponent, base.dtype()));
  }
  ASYRA_ASSIGN_OR_RETURN(Value result,
                         graph.Elementwise("pow", {base, exponent}));
  return node.Return(graph.Cast(result, node.dtype()));
}

absl::Status Greater(Node& node) {
  return node.Return(
      node.graph().Elementwise(node.ir_op(), {node.In(1), node.In(0)}));
}

absl::Status Xor(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(Value same,
                         node.graph().Elementwise("equal", node.Inputs()));
  return node.Return(node.graph().Elementwise("not", {same}));
}

absl::Status Mean(Node& node) {
  std::vector<Value> inputs = node.Inputs();
  double count = static_cast<double>(inputs.size());
  ASYRA_ASSIGN_OR_RETURN(Value sum, AddAll(node, inputs));
  return node.Return(WithScalar(node, "mul", sum, 1 / count));
}

absl::Status Cast(Node& node) {
  // These choose what becomes of values that 8-bit floats cannot hold.
  node.Ignore("saturate");
  node.Ignore("round_mode");
  int64_t to = node.Int("to", 0);
  if (const NarrowType* narrow = FindNarrowType(to)) {
    return CastToNarrow(node, *narrow);
  }
  ASYRA_ASSIGN_OR_RETURN(DType dtype, DTypeFromOnnx(to));
  return node.Return(CastTo(node, dtype));
}

absl::Status CastLike(Node& node) {
  node.Ignore("saturate");
  node.Ignore("round_mode");
  const NarrowType* narrow = node.In(1).narrow();
  if (narrow != nullptr) return CastToNarrow(node, *narrow);
  return node.Return(CastTo(node, node.dtype(1)));
}

absl::Status Clip(Node& node) {
  Value result = node.In(0);
  if (node.Has(1)) {
    ASYRA_ASSIGN_OR_RETURN(
        result, node.graph().Elementwise("max", {result, node.In(1)}));
  }
  if (node.Has(2)) {
    ASYRA_ASSIGN_OR_RETURN(
        result, node.graph().Elementwise("min", {result, node.In(2)}));
  }
  return node.Return(result);
}

absl::Status Gelu(Node& node) {
  std::string form = node.String("approximate", "none");
  if (form != "none" && form != "tanh") {
    return Invalid("attribute approximate is '{}', not none or tanh", form);
  }
  ASYRA_ASSIGN_OR_RETURN(Value sum, AddAll(node, node.Inputs()));
  bool tanh = form == "tanh" || node.ir_op() == "gelu_tanh";
  return node.Return(
      node.graph().Elementwise(tanh ? "gelu_tanh" : "gelu", {sum}));
}

absl::Status Swish(Node& node) {
  double alpha = node.Float("alpha", 1);
  if (alpha == 1) {
    return node.Return(node.graph().Elementwise("silu", {node.In(0)}));
  }
  ASYRA_ASSIGN_OR_RETURN(Value scaled,
                         WithScalar(node, "mul", node.In(0), alpha));
  ASYRA_ASSIGN_OR_RETURN(Value gate,
                         node.graph().Elementwise("sigmoid", {scaled}));
  return node.Return(node.graph().Elementwise("mul", {node.In(0), gate}));
}

absl::Status Identity(Node& node) { return node.Return(node.In(0)); }

absl::Status Dropout(Node& node) {
  node.Ignore("seed");
  if (node.Has(2) && !node.In(2).IsSplatOf(0)) {
    return Unimplemented("training mode draws randomness");
  }
  if (node.WantsOutput(1)) {
    Value yes = node.graph().Scalar(1, DType::kBool);
    ASYRA_RETURN_IF_ERROR(
        node.SetOutput(1, node.graph().Broadcast(yes, node.In(0).shape())));
  }
  return node.Return(node.In(0));
}

}  // namespace asyra::onnx_import::ops
