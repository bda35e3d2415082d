#include "frontends/onnx/ops/ops.h"
#include "frontends/onnx/tensor_proto.h"

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

// Returns whether a scale has one scalar for each element of a row, and the
// rows begin at dimension `dim`.
bool IsRow(const asyra::Shape& scale, const asyra::Shape& x, int dim) {
  int missing = static_cast<int>(x.size()) - static_cast<int>(scale.size());
  for (int i = 0; i < static_cast<int>(x.size()); ++i) {
    int64_t size = i < missing ? 1 : scale[i - missing];
    if (size != (i < dim ? 1 : x[i])) return false;
  }
  return missing >= 0;
}

// A scale or bias as a vector of the last dimension of x; null where it is no
// such thing.
absl::StatusOr<std::optional<Value>> PerChannel(Node& node, int input,
                                                const Type& x) {
  if (x.rank() == 0) return Invalid("the input has rank 0");
  int64_t size = x.size(x.rank() - 1);
  const Value& value = node.In(input);
  absl::StatusOr<Value> vector = value;
  if (value.type().num_elements() == 1 && size != 1) {
    vector = node.graph().Reshape(value, {});
    if (vector.ok()) vector = node.graph().Broadcast(*vector, {size});
  } else if (IsRow(value.shape(), node.In(0).shape(), x.rank() - 1)) {
    vector = node.graph().Reshape(value, {size});
  } else {
    return std::optional<Value>();
  }
  if (!vector.ok()) return vector.status();
  return std::optional<Value>(*std::move(vector));
}

absl::Status RefuseOutputs(Node& node, int first, int end) {
  for (int i = first; i < end; ++i) {
    if (node.WantsOutput(i)) {
      return Unimplemented("output {}, a statistic, is not supported", i);
    }
  }
  return absl::OkStatus();
}

// Scale at input `scale`, bias (if any) after it, in the shape of input 0.
absl::StatusOr<Value> Norm(Node& node, std::string_view op, const Value& x,
                           int scale, double epsilon) {
  Graph& graph = node.graph();
  std::vector<Value> operands = {x};
  // A scale or bias that cannot be an operand of the op: it broadcasts to the
  // result.
  std::vector<std::pair<std::string_view, Value>> after;
  int last = op == "layer_norm" ? scale + 1 : scale;
  for (int i = scale; i <= last && node.Has(i); ++i) {
    ASYRA_ASSIGN_OR_RETURN(std::optional<Value> vector,
                           PerChannel(node, i, x.type()));
    if (vector.has_value() && after.empty()) {
      operands.push_back(*std::move(vector));
      continue;
    }
    after.emplace_back(i == scale ? "mul" : "add", node.In(i));
    if (i > scale) continue;
    ASYRA_ASSIGN_OR_RETURN(Value ones,
                           graph.Broadcast(graph.Scalar(1, x.dtype()),
                                           {x.type().size(x.rank() - 1)}));
    operands.push_back(std::move(ones));
  }
  ASYRA_ASSIGN_OR_RETURN(Value result,
                         graph.Add(op, operands, {{"eps", epsilon}}));
  asyra::Shape shape = node.In(0).shape();
  ASYRA_ASSIGN_OR_RETURN(result, graph.Reshape(result, shape));
  for (const auto& [function, value] : after) {
    ASYRA_ASSIGN_OR_RETURN(result,
                           graph.Elementwise(function, {result, value}));
    if (result.shape() != shape) {
      return Invalid("a scale or bias has shape {}, the input {}",
                     ShapeToString(value.shape()), ShapeToString(shape));
    }
  }
  return result;
}

// Outputs Mean and InvStdDev, in `stash_type`, of rows [..., N].
absl::Status SetStatistics(Node& node, const Value& rows, double epsilon) {
  Graph& graph = node.graph();
  ASYRA_ASSIGN_OR_RETURN(DType stash, DTypeFromOnnx(node.Int("stash_type", 1)));
  if (!node.WantsOutput(1) && !node.WantsOutput(2)) return absl::OkStatus();
  ASYRA_ASSIGN_OR_RETURN(Value x, graph.Cast(rows, stash));
  const AttrMap over = {{"dims", Ints{x.rank() - 1}}};
  ASYRA_ASSIGN_OR_RETURN(Value mean, graph.Add("reduce_mean", {x}, over));
  ASYRA_ASSIGN_OR_RETURN(x, graph.Elementwise("sub", {x, mean}));
  ASYRA_ASSIGN_OR_RETURN(x, graph.Elementwise("mul", {x, x}));
  ASYRA_ASSIGN_OR_RETURN(x, graph.Add("reduce_mean", {x}, over));
  ASYRA_ASSIGN_OR_RETURN(
      x, graph.Elementwise("add", {x, graph.Scalar(epsilon, stash)}));
  ASYRA_ASSIGN_OR_RETURN(x, graph.Elementwise("rsqrt", {x}));
  asyra::Shape shape = node.In(0).shape();
  std::fill(shape.begin() + rows.rank() - 1, shape.end(), 1);
  ASYRA_RETURN_IF_ERROR(node.SetOutput(1, graph.Reshape(mean, shape)));
  return node.SetOutput(2, graph.Reshape(x, shape));
}

}  // namespace

absl::Status LayerNormalization(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(Value x, WithOneRow(node));
  double epsilon = node.Float("epsilon", 1e-5);
  ASYRA_RETURN_IF_ERROR(SetStatistics(node, x, epsilon));
  return node.Return(Norm(node, "layer_norm", x, 1, epsilon));
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
  return node.Return(
      Norm(node, node.ir_op(), sum, 2, node.Float("epsilon", 1e-12)));
}

}  // namespace asyra::onnx_import::ops
