#include <cmath>

#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

const Ints kSwapHeads = {0, 2, 1, 3};  // [B,H,S,D] <-> [B,S,H,D]

// One of q, k, v as [B, S, H, D]. ONNX has it as [B, H, S, D], or as
// [B, S, H * D] with the number of heads in an attribute.
absl::StatusOr<Value> WithHeads(Node& node, int input, std::string_view attr) {
  const Value& value = node.In(input);
  if (value.rank() == 4) return node.graph().Transpose(value, kSwapHeads);
  int64_t heads = node.Int(attr, 0);
  if (value.rank() != 3) {
    return Invalid("input {} has rank {}, it should be 3 or 4", input,
                   value.rank());
  }
  int64_t width = value.type().size(2);
  if (heads < 1 || width % heads != 0) {
    return Invalid("input {} has {} columns, {} is {}", input, width, attr,
                   heads);
  }
  return node.graph().Reshape(
      value,
      {value.type().size(0), value.type().size(1), heads, width / heads});
}

// Back to the form of input 0.
absl::StatusOr<Value> LikeInput(Node& node, const Value& value) {
  if (node.rank() == 4) return node.graph().Transpose(value, kSwapHeads);
  const Type& type = value.type();
  return node.graph().Reshape(
      value, {type.size(0), type.size(1), type.size(2) * type.size(3)});
}

absl::StatusOr<Value> Mask(Node& node) {
  asyra::Shape shape = node.In(3).shape();
  if (shape.size() > 4) return Invalid("the mask has rank {}", shape.size());
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  return node.graph().Reshape(node.In(3), shape);
}

// Keys or values of earlier steps in front of this step's, and what the model
// hands on to the next step.
absl::StatusOr<Value> WithPast(Node& node, int past, const Value& now) {
  Graph& graph = node.graph();
  Value all = now;
  if (node.Has(past)) {
    if (node.rank(past) != 4) {
      return Invalid("input {} has rank {}, it should be 4", past,
                     node.rank(past));
    }
    ASYRA_ASSIGN_OR_RETURN(Value before,
                           graph.Transpose(node.In(past), kSwapHeads));
    ASYRA_ASSIGN_OR_RETURN(
        all, graph.Add("concat", {before, now}, {{"dim", int64_t{1}}}));
  }
  if (node.WantsOutput(past - 3)) {
    ASYRA_RETURN_IF_ERROR(
        node.SetOutput(past - 3, graph.Transpose(all, kSwapHeads)));
  }
  return all;
}

}  // namespace

absl::Status Attention(Node& node) {
  node.Ignore("softmax_precision");      // f32 or wider
  node.Ignore("qk_matmul_output_mode");  // of an output that is refused
  node.Ignore("q_num_heads");            // of inputs of rank 3
  node.Ignore("kv_num_heads");
  Graph& graph = node.graph();
  bool causal = node.Int("is_causal", 0) != 0;
  if (node.WantsOutput(3)) {
    return Unimplemented("output qk_matmul_output is not supported");
  }
  if (causal && node.Has(4)) {
    return Unimplemented("is_causal with past keys is not supported");
  }
  ASYRA_ASSIGN_OR_RETURN(Value q, WithHeads(node, 0, "q_num_heads"));
  ASYRA_ASSIGN_OR_RETURN(Value k, WithHeads(node, 1, "kv_num_heads"));
  ASYRA_ASSIGN_OR_RETURN(Value v, WithHeads(node, 2, "kv_num_heads"));
  ASYRA_ASSIGN_OR_RETURN(k, WithPast(node, 4, k));
  ASYRA_ASSIGN_OR_RETURN(v, WithPast(node, 5, v));
  std::vector<Value> operands = {q, k, v};
  if (node.Has(3)) {
    ASYRA_ASSIGN_OR_RETURN(Value mask, Mask(node));
    operands.push_back(std::move(mask));
  }
  double head_size = static_cast<double>(q.type().size(3));
  ASYRA_ASSIGN_OR_RETURN(
      Value result,
      graph.Add("attention", operands,
                {{"causal", causal},
                 {"scale", node.Float("scale", 1 / std::sqrt(head_size))},
                 {"softcap", node.Float("softcap", 0)}}));
  return node.Return(LikeInput(node, result));
}

absl::Status RotaryEmbedding(Node& node) {
  node.Ignore("num_heads");  // of an input of rank 3
  Graph& graph = node.graph();
  ASYRA_ASSIGN_OR_RETURN(Value x, WithHeads(node, 0, "num_heads"));
  Value tables[2];
  for (int i : {0, 1}) {
    tables[i] = node.In(1 + i);
    if (!node.Has(3)) continue;
    ASYRA_ASSIGN_OR_RETURN(
        tables[i],
        graph.Add("gather", {tables[i], node.In(3)}, {{"dim", int64_t{0}}}));
  }
  int64_t width = node.Int("rotary_embedding_dim", 0);
  int64_t columns = tables[0].type().rank() == 0
                        ? 0
                        : tables[0].type().size(tables[0].rank() - 1);
  if (width != 0 && columns * 2 != width) {
    return Invalid("rotary_embedding_dim is {}, the tables have {} columns",
                   width, columns);
  }
  ASYRA_ASSIGN_OR_RETURN(
      Value result,
      graph.Add("rotary", {x, tables[0], tables[1]},
                {{"interleaved", node.Int("interleaved", 0) != 0}}));
  return node.Return(LikeInput(node, result));
}

}  // namespace asyra::onnx_import::ops
