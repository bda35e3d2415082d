// Normalizations of [N, C, spatial...] with a scale and a bias per channel.
#include <algorithm>

#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

absl::Status RequireChannels(Node& node) {
  if (node.rank() >= 2) return absl::OkStatus();
  return Invalid("input 0 has rank {}, at least 2 is needed", node.rank());
}

// A vector as [size, 1, ...], to be broadcast over what follows the channels.
absl::StatusOr<Value> AsColumn(Node& node, int input, int rank) {
  asyra::Shape shape(rank - 1, 1);
  shape[0] = node.type(input).num_elements();
  return node.graph().Reshape(node.In(input), shape);
}

absl::StatusOr<Value> ScaleAndShift(Node& node, const Value& value, int scale,
                                    int bias) {
  ASYRA_ASSIGN_OR_RETURN(Value factor, AsColumn(node, scale, value.rank()));
  ASYRA_ASSIGN_OR_RETURN(Value offset, AsColumn(node, bias, value.rank()));
  ASYRA_ASSIGN_OR_RETURN(Value scaled,
                         node.graph().Elementwise("mul", {value, factor}));
  return node.graph().Elementwise("add", {scaled, offset});
}

// [N, groups, rest] with mean 0 and variance 1 over the rest.
absl::StatusOr<Value> Normalized(Node& node, int64_t groups) {
  Graph& graph = node.graph();
  int64_t batch = node.type().size(0), channels = node.type().size(1);
  if (groups < 1 || groups > std::max(channels, int64_t{1}) ||
      channels % groups != 0) {
    return Invalid("{} groups do not divide {} channels", groups, channels);
  }
  int64_t rest =
      groups * batch == 0 ? 0 : node.type().num_elements() / (groups * batch);
  ASYRA_ASSIGN_OR_RETURN(Value x,
                         graph.Reshape(node.In(0), {batch, groups, rest}));
  ASYRA_ASSIGN_OR_RETURN(
      Value ones, graph.Broadcast(graph.Scalar(1, node.dtype()), {rest}));
  return graph.Add("layer_norm", {x, ones},
                   {{"eps", node.Float("epsilon", 1e-5)}});
}

}  // namespace

absl::Status InstanceNormalization(Node& node) {
  ASYRA_RETURN_IF_ERROR(RequireChannels(node));
  ASYRA_ASSIGN_OR_RETURN(Value x, Normalized(node, node.type().size(1)));
  ASYRA_ASSIGN_OR_RETURN(x, node.graph().Reshape(x, node.In(0).shape()));
  return node.Return(ScaleAndShift(node, x, 1, 2));
}

// Scale and bias are per group in opset 18, per channel since 21.
absl::Status GroupNormalization(Node& node) {
  node.Ignore("stash_type");  // f32 or wider
  ASYRA_RETURN_IF_ERROR(RequireChannels(node));
  ASYRA_ASSIGN_OR_RETURN(Value x, Normalized(node, node.Int("num_groups", 0)));
  if (node.opset() < 21) {
    ASYRA_ASSIGN_OR_RETURN(x, ScaleAndShift(node, x, 1, 2));
    return node.Return(node.graph().Reshape(x, node.In(0).shape()));
  }
  ASYRA_ASSIGN_OR_RETURN(x, node.graph().Reshape(x, node.In(0).shape()));
  return node.Return(ScaleAndShift(node, x, 1, 2));
}

// With the statistics that training left.
absl::Status BatchNormalization(Node& node) {
  node.Ignore("momentum");  // of training
  if (node.Int("training_mode", 0) != 0) {
    return Unimplemented("training mode computes statistics");
  }
  ASYRA_RETURN_IF_ERROR(RequireChannels(node));
  Graph& graph = node.graph();
  for (int statistic : {3, 4}) {
    graph.MarkConstant(node.In(statistic),
                       "running statistics of BatchNormalization");
  }
  ASYRA_ASSIGN_OR_RETURN(Value mean, AsColumn(node, 3, node.rank()));
  ASYRA_ASSIGN_OR_RETURN(Value variance, AsColumn(node, 4, node.rank()));
  Value eps = graph.Scalar(node.Float("epsilon", 1e-5), variance.dtype());
  ASYRA_ASSIGN_OR_RETURN(variance, graph.Elementwise("add", {variance, eps}));
  ASYRA_ASSIGN_OR_RETURN(Value inverse, graph.Elementwise("rsqrt", {variance}));
  ASYRA_ASSIGN_OR_RETURN(Value x, graph.Elementwise("sub", {node.In(0), mean}));
  ASYRA_ASSIGN_OR_RETURN(x, graph.Elementwise("mul", {x, inverse}));
  return node.Return(ScaleAndShift(node, x, 1, 2));
}

}  // namespace asyra::onnx_import::ops
