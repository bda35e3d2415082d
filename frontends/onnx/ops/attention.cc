// Attention and RotaryEmbedding of ai.onnx.
#include <cmath>
#include <limits>

#include "frontends/onnx/ops/attention_form.h"
#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

// One of q, k, v as [B, S, H, D]. ONNX has it as [B, H, S, D], or as
// [B, S, H * D] with the number of heads in an attribute.
absl::StatusOr<Value> WithHeads(Node& node, int input, std::string_view attr) {
  const Value& value = node.In(input);
  if (value.rank() == 4) return SwapHeads(node, value);
  if (value.rank() != 3) {
    return Invalid("input {} has rank {}, it should be 3 or 4", input,
                   value.rank());
  }
  int64_t heads = node.Int(attr, 0);
  if (heads < 1 || value.type().size(2) % heads != 0) {
    return Invalid("input {} has {} columns, {} is {}", input,
                   value.type().size(2), attr, heads);
  }
  return SplitHeads(node, value, heads, "");
}

// Back to the form of input 0.
absl::StatusOr<Value> LikeInput(Node& node, const Value& value) {
  return node.rank() == 4 ? SwapHeads(node, value) : JoinHeads(node, value);
}

// Concatenates keys or values of earlier steps with this step's, as input here
// and as output for the next step.
absl::StatusOr<Value> WithPast(Node& node, int past, const Value& now) {
  Value all = now;
  if (node.Has(past)) {
    if (node.rank(past) != 4) {
      return Invalid("input {} has rank {}, it should be 4", past,
                     node.rank(past));
    }
    ASYRA_ASSIGN_OR_RETURN(Value before, SwapHeads(node, node.In(past)));
    ASYRA_ASSIGN_OR_RETURN(
        all, node.graph().Add("concat", {before, now}, {{"dim", int64_t{1}}}));
  }
  if (node.WantsOutput(past - 3)) {
    ASYRA_RETURN_IF_ERROR(node.SetOutput(past - 3, SwapHeads(node, all)));
  }
  return all;
}

// From opset 24 on a mask may be shorter than the keys, which are then not
// seen.
absl::StatusOr<Value> PaddedMask(Node& node, int64_t keys) {
  const Value& mask = node.In(3);
  asyra::Shape shape = mask.shape();
  if (node.opset() < 24 || shape.empty() || shape.back() >= keys) return mask;
  shape.back() = keys - shape.back();
  Value unseen = node.graph().Scalar(
      mask.dtype() == DType::kBool ? 0
                                   : -std::numeric_limits<double>::infinity(),
      mask.dtype());
  ASYRA_ASSIGN_OR_RETURN(Value rest, node.graph().Broadcast(unseen, shape));
  return node.graph().Add("concat", {mask, rest},
                          {{"dim", int64_t{mask.rank() - 1}}});
}

// Keys that exist, [B], without which the queries are the first ones.
absl::Status SetLengths(Node& node, AttentionForm* form) {
  if (node.rank(6) != 1 || !IsInteger(node.dtype(6))) {
    return Invalid("nonpad_kv_seqlen is {}{}, it should be i64[{}]",
                   ToString(node.dtype(6)), ShapeToString(node.In(6).shape()),
                   form->q.type().size(0));
  }
  ASYRA_ASSIGN_OR_RETURN(form->lengths,
                         node.graph().Cast(node.In(6), DType::kI64));
  Value queries =
      Value::Known(Tensor::FromInts(DType::kI64, {}, {form->q.type().size(1)}));
  ASYRA_ASSIGN_OR_RETURN(
      form->starts, node.graph().Elementwise("sub", {*form->lengths, queries}));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<int64_t>> Window(Node& node,
                                              std::string_view name) {
  int64_t size = node.Int(name, -1);
  if (size < -1) return Invalid("{} is {}", name, size);
  return size < 0 ? std::optional<int64_t>() : size;
}

}  // namespace

absl::Status Attention(Node& node) {
  node.Ignore("softmax_precision");      // f32 or wider
  node.Ignore("qk_matmul_output_mode");  // of an output that is refused
  node.Ignore("q_num_heads");            // of inputs of rank 3
  node.Ignore("kv_num_heads");
  if (node.WantsOutput(3)) {
    return Unimplemented("output qk_matmul_output is not supported");
  }
  if (node.Has(4) != node.Has(5)) {
    return Invalid("one of past_key and past_value is left out");
  }
  AttentionForm form;
  ASYRA_ASSIGN_OR_RETURN(form.q, WithHeads(node, 0, "q_num_heads"));
  ASYRA_ASSIGN_OR_RETURN(form.k, WithHeads(node, 1, "kv_num_heads"));
  ASYRA_ASSIGN_OR_RETURN(form.v, WithHeads(node, 2, "kv_num_heads"));
  ASYRA_ASSIGN_OR_RETURN(form.k, WithPast(node, 4, form.k));
  ASYRA_ASSIGN_OR_RETURN(form.v, WithPast(node, 5, form.v));
  if (node.Has(4)) form.start = node.type(4).size(2);
  if (node.Has(6)) ASYRA_RETURN_IF_ERROR(SetLengths(node, &form));
  if (node.Has(3)) {
    ASYRA_ASSIGN_OR_RETURN(Value mask, PaddedMask(node, form.k.type().size(1)));
    form.masks.push_back(std::move(mask));
  }
  form.causal = node.Int("is_causal", 0) != 0;
  ASYRA_ASSIGN_OR_RETURN(form.left, Window(node, "left_window_size"));
  ASYRA_ASSIGN_OR_RETURN(form.right, Window(node, "right_window_size"));
  form.scale = node.Float(
      "scale", 1 / std::sqrt(static_cast<double>(form.q.type().size(3))));
  form.softcap = node.Float("softcap", 0);
  ASYRA_ASSIGN_OR_RETURN(Value result, AddAttention(node, std::move(form)));
  return node.Return(LikeInput(node, result));
}

absl::Status RotaryEmbedding(Node& node) {
  node.Ignore("num_heads");  // of an input of rank 3
  ASYRA_ASSIGN_OR_RETURN(Value x, WithHeads(node, 0, "num_heads"));
  std::optional<Value> positions;
  if (node.Has(3)) positions = node.In(3);
  int64_t width = node.Int("rotary_embedding_dim", 0);
  int64_t columns = node.rank(1) == 0 ? 0 : node.type(1).size(node.rank(1) - 1);
  if (width != 0 && columns * 2 != width) {
    return Invalid("rotary_embedding_dim is {}, the tables have {} columns",
                   width, columns);
  }
  ASYRA_ASSIGN_OR_RETURN(Value result,
                         AddRotary(node, x, node.In(1), node.In(2), positions,
                                   node.Int("interleaved", 0) != 0));
  return node.Return(LikeInput(node, result));
}

}  // namespace asyra::onnx_import::ops
