#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

// The IR norms work over the last dimension: dimensions from `axis` on become
// one.
absl::StatusOr<Value> WithOneRow(Node& node) {
  node.Ignore("stash_type");  // they compute in f32 or wider
  ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(node.Int("axis", -1), node.rank()));
  asyra::Shape shape = node.In(0).shape();
  int64_t row = 1;
  for (int i = dim; i < node.rank(); ++i) row *= shape[i];
  shape.resize(dim);
  shape.push_back(row);
  return node.graph().Reshape(node.In(0), shape);
}

// A scale or bias as a vector of the last dimension of x.
absl::StatusOr<Value> PerChannel(Node& node, int input, const Type& x) {
  if (x.rank() == 0) return Invalid("the input has rank 0");
  int64_t size = x.size(x.rank() - 1);
  const Value& value = node.In(input);
  if (value.type().num_elements() == size) {
    return node.graph().Reshape(value, {size});
  }
  if (value.type().num_elements() != 1) {
    return Invalid("input {} has shape {}, the last dim is {}", input,
                   ShapeToString(value.shape()), size);
  }
  ASYRA_ASSIGN_OR_RETURN(Value scalar, node.graph().Reshape(value, {}));
  return node.graph().Broadcast(scalar, {size});
}

absl::Status RefuseOutputs(Node& node, int first, int end) {
  for (int i = first; i < end; ++i) {
    if (node.WantsOutput(i)) {
      return Unimplemented("output {}, a statistic, is not supported", i);
    }
  }
  return absl::OkStatus();
}

// Scale at input `scale`, bias (if any) after it.
absl::StatusOr<Value> Norm(Node& node, std::string_view op, const Value& x,
                           int scale, double epsilon) {
  std::vector<Value> operands = {x};
  int last = op == "layer_norm" ? scale + 1 : scale;
  for (int i = scale; i <= last && node.Has(i); ++i) {
    ASYRA_ASSIGN_OR_RETURN(Value vector, PerChannel(node, i, x.type()));
    operands.push_back(std::move(vector));
  }
  ASYRA_ASSIGN_OR_RETURN(Value result,
                         node.graph().Add(op, operands, {{"eps", epsilon}}));
  return node.graph().Reshape(result, node.In(0).shape());
}

}  // namespace

absl::Status LayerNormalization(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(Value x, WithOneRow(node));
  ASYRA_RETURN_IF_ERROR(RefuseOutputs(node, 1, 3));
  return node.Return(
      Norm(node, "layer_norm", x, 1, node.Float("epsilon", 1e-5)));
}

absl::Status RmsNormalization(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(Value x, WithOneRow(node));
  ASYRA_RETURN_IF_ERROR(RefuseOutputs(node, 1, 2));
  return node.Return(Norm(node, "rms_norm", x, 1, node.Float("epsilon", 1e-5)));
}

// com.microsoft: input + skip [+ bias], normalized; the sum is output 3.
absl::Status SkipLayerNormalization(Node& node) {
  ASYRA_RETURN_IF_ERROR(RefuseOutputs(node, 1, 3));
  bool rms = node.ir_op() == "rms_norm";
  int bias = rms ? 3 : 4;
  std::vector<Value> terms = {node.In(0), node.In(1)};
  if (node.Has(bias)) terms.push_back(node.In(bias));
  ASYRA_ASSIGN_OR_RETURN(Value sum, AddAll(node, terms));
  if (sum.shape() != node.In(0).shape()) {
    return Invalid("skip has shape {}, the input {}",
                   ShapeToString(node.In(1).shape()),
                   ShapeToString(node.In(0).shape()));
  }
  ASYRA_RETURN_IF_ERROR(node.SetOutput(3, sum));
  return node.Return(Norm(node, node.ir_op(), sum, 2,
                          node.Float("epsilon", rms ? 1e-5 : 1e-12)));
}

}  // namespace asyra::onnx_import::ops
