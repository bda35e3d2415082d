// Attention, MultiHeadAttention and RotaryEmbedding of com.microsoft, as
// docs/ContribOperators.md of ONNX Runtime describes them and its CPU kernels
// compute them.
#include <cmath>
#include <limits>

#include "frontends/onnx/ops/attention_form.h"
#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

absl::StatusOr<Value> AsI64(Node& node, const Value& value) {
  if (!IsInteger(value.dtype())) {
    return Invalid("a mask is {}, it should be an integer",
                   ToString(value.dtype()));
  }
  return node.graph().Cast(value, DType::kI64);
}

// `mask_filter_value` where a key is not there, 0 elsewhere.
absl::StatusOr<Value> Filter(Node& node, const Value& there, DType dtype) {
  Graph& graph = node.graph();
  double filter = node.Float("mask_filter_value", -10000);
  return graph.Elementwise(
      "select", {there, graph.Scalar(0, dtype), graph.Scalar(filter, dtype)});
}

absl::StatusOr<Value> KeyIndex(Node& node, int64_t keys) {
  return node.graph().Iota({1, keys}, 1, DType::kI64);
}

// Numbers to add to the scores from a mask of one of these shapes:
//   [B]        how many keys each sequence has
//   [2 B]      where they end, and then where they begin
//   [B, T], [B, S, T]  positive where a key is there
//   [B, 1, M, M]       the same, for the last S rows of the first T positions
absl::StatusOr<Value> PaddingMask(Node& node, int input,
                                  const AttentionForm& form) {
  Graph& graph = node.graph();
  ASYRA_ASSIGN_OR_RETURN(Value mask, AsI64(node, node.In(input)));
  const Type &q = form.q.type(), &k = form.k.type();
  int64_t batch = q.size(0), queries = q.size(1), keys = k.size(1);
  absl::StatusOr<Value> there = Invalid(
      "input {}, the mask, has shape {}, which is not supported for {} "
      "sequences of {} queries and {} keys",
      input, ShapeToString(mask.shape()), batch, queries, keys);
  Value zero = graph.Scalar(0, DType::kI64);
  asyra::Shape shape = mask.shape();
  if (shape == asyra::Shape{batch} || shape == asyra::Shape{2 * batch}) {
    ASYRA_ASSIGN_OR_RETURN(Value column, KeyIndex(node, keys));
    ASYRA_ASSIGN_OR_RETURN(Value end, graph.Slice(mask, 0, 0, batch));
    ASYRA_ASSIGN_OR_RETURN(end, graph.Reshape(end, {batch, 1}));
    there = graph.Elementwise("less", {column, end});
    if (there.ok() && shape[0] != batch) {
      ASYRA_ASSIGN_OR_RETURN(Value begin,
                             graph.Slice(mask, 0, batch, 2 * batch));
      ASYRA_ASSIGN_OR_RETURN(begin, graph.Reshape(begin, {batch, 1}));
      ASYRA_ASSIGN_OR_RETURN(Value after,
                             graph.Elementwise("less_equal", {begin, column}));
      there = graph.Elementwise("and", {*there, after});
    }
    if (there.ok()) there = graph.Reshape(*there, {batch, 1, 1, keys});
  } else if (shape == asyra::Shape{batch, keys}) {
    there = graph.Elementwise("less", {zero, mask});
    if (there.ok()) there = graph.Reshape(*there, {batch, 1, 1, keys});
  } else if (shape == asyra::Shape{batch, queries, keys}) {
    there = graph.Elementwise("less", {zero, mask});
    if (there.ok()) there = graph.Reshape(*there, {batch, 1, queries, keys});
  } else if (shape.size() == 4 && shape[0] == batch && shape[1] == 1 &&
             shape[2] == shape[3] && shape[2] >= keys && keys >= queries) {
    ASYRA_ASSIGN_OR_RETURN(mask, graph.Slice(mask, 2, keys - queries, keys));
    ASYRA_ASSIGN_OR_RETURN(mask, graph.Slice(mask, 3, 0, keys));
    there = graph.Elementwise("less", {zero, mask});
  }
  if (!there.ok()) return there.status();
  return Filter(node, *there, form.q.dtype());
}

double ScaleOf(Node& node, const Value& q) {
  double scale = node.Float("scale", 0);
  if (scale != 0) return scale;
  return 1 / std::sqrt(static_cast<double>(q.type().size(3)));
}

// Part `index` of [B, S, N, parts, H].
absl::StatusOr<Value> Unpacked(Node& node, const Value& packed, int64_t index) {
  ASYRA_ASSIGN_OR_RETURN(Value part,
                         node.graph().Slice(packed, 3, index, index + 1));
  const Type& type = packed.type();
  return node.graph().Reshape(
      part, {type.size(0), type.size(1), type.size(2), type.size(4)});
}

// Columns [start, start + width) of a value's last dimension.
absl::StatusOr<Value> Columns(Node& node, const Value& value, int64_t start,
                              int64_t width) {
  return node.graph().Slice(value, value.rank() - 1, start, start + width);
}

// `now` [B, S, H, D] after `past` [B, H, P, D].
absl::StatusOr<Value> AfterPast(Node& node, const Value& past,
                                const Value& now) {
  ASYRA_ASSIGN_OR_RETURN(Value before, SwapHeads(node, past));
  return node.graph().Add("concat", {before, now}, {{"dim", int64_t{1}}});
}

// past and present are [2, B, H, P, D]: keys, then values.
absl::Status StackedPast(Node& node, int input, AttentionForm* form) {
  Graph& graph = node.graph();
  Value* kv[] = {&form->k, &form->v};
  std::vector<Value> present;
  for (int64_t i : {0, 1}) {
    if (node.Has(input)) {
      const Type& past = node.type(input);
      if (past.rank() != 5 || past.size(0) != 2) {
        return Invalid("past has shape {}, it should be [2, B, N, P, H]",
                       ShapeToString(past.shape()));
      }
      form->start = past.size(3);
      ASYRA_ASSIGN_OR_RETURN(Value part,
                             graph.Slice(node.In(input), 0, i, i + 1));
      ASYRA_ASSIGN_OR_RETURN(
          part, graph.Reshape(part, {past.size(1), past.size(2), past.size(3),
                                     past.size(4)}));
      ASYRA_ASSIGN_OR_RETURN(*kv[i], AfterPast(node, part, *kv[i]));
    }
    if (!node.WantsOutput(1)) continue;
    ASYRA_ASSIGN_OR_RETURN(Value all, SwapHeads(node, *kv[i]));
    asyra::Shape shape = all.shape();
    shape.insert(shape.begin(), 1);
    ASYRA_ASSIGN_OR_RETURN(all, graph.Reshape(all, shape));
    present.push_back(std::move(all));
  }
  if (present.empty()) return absl::OkStatus();
  return node.SetOutput(1, graph.Add("concat", present, {{"dim", int64_t{0}}}));
}

absl::Status RefuseAttr(Node& node, std::string_view name) {
  if (node.Int(name, 0) == 0) return absl::OkStatus();
  return Unimplemented("{} is not supported", name);
}

// q, k and v of MultiHeadAttention, which come in one input, in two or in
// three.
absl::Status ReadInputs(Node& node, int64_t heads, AttentionForm* form) {
  if (node.rank() == 5) {  // [B, S, N, 3, H]
    Value* parts[] = {&form->q, &form->k, &form->v};
    for (int64_t i = 0; i < 3; ++i) {
      ASYRA_ASSIGN_OR_RETURN(*parts[i], Unpacked(node, node.In(0), i));
    }
    return absl::OkStatus();
  }
  if (!node.Has(1)) return Invalid("key is left out");
  ASYRA_ASSIGN_OR_RETURN(form->q, SplitHeads(node, node.In(0), heads, "query"));
  if (node.rank(1) == 5) {  // [B, T, N, 2, H]
    ASYRA_ASSIGN_OR_RETURN(form->k, Unpacked(node, node.In(1), 0));
    ASYRA_ASSIGN_OR_RETURN(form->v, Unpacked(node, node.In(1), 1));
    return absl::OkStatus();
  }
  if (!node.Has(2)) return Invalid("value is left out");
  if (node.rank(1) == 4) {  // [B, N, T, H], of a cross attention
    ASYRA_ASSIGN_OR_RETURN(form->k, SwapHeads(node, node.In(1)));
    ASYRA_ASSIGN_OR_RETURN(form->v, SwapHeads(node, node.In(2)));
    return absl::OkStatus();
  }
  ASYRA_ASSIGN_OR_RETURN(form->k, SplitHeads(node, node.In(1), heads, "key"));
  ASYRA_ASSIGN_OR_RETURN(form->v, SplitHeads(node, node.In(2), heads, "value"));
  return absl::OkStatus();
}

// The bias has the columns of q, k and v one after the other.
absl::Status AddBias(Node& node, const Value& bias, AttentionForm* form) {
  Graph& graph = node.graph();
  int64_t at = 0;
  // Keys and values with their heads in front have theirs already.
  bool cross = node.Has(1) && node.rank(1) == 4;
  for (Value* value : {&form->q, &form->k, &form->v}) {
    int64_t heads = value->type().size(2), size = value->type().size(3);
    if (bias.rank() != 1 || at + heads * size > bias.type().size(0)) {
      return Invalid("the bias has shape {}, q, k and v have {} columns",
                     ShapeToString(bias.shape()), at + heads * size);
    }
    ASYRA_ASSIGN_OR_RETURN(Value part, Columns(node, bias, at, heads * size));
    ASYRA_ASSIGN_OR_RETURN(part, graph.Reshape(part, {heads, size}));
    at += heads * size;
    if (cross && value != &form->q) continue;
    ASYRA_ASSIGN_OR_RETURN(*value, graph.Elementwise("add", {*value, part}));
  }
  return absl::OkStatus();
}

absl::Status AddMasks(Node& node, int padding, int bias, AttentionForm* form) {
  if (node.Has(padding)) {
    ASYRA_ASSIGN_OR_RETURN(Value mask, PaddingMask(node, padding, *form));
    form->masks.push_back(std::move(mask));
  }
  if (node.Has(bias)) form->masks.push_back(node.In(bias));
  node.Ignore("mask_filter_value");  // of a mask that is not there
  form->causal = node.Int("unidirectional", 0) != 0;
  form->scale = ScaleOf(node, form->q);
  return absl::OkStatus();
}

}  // namespace

absl::Status ContribAttention(Node& node) {
  Graph& graph = node.graph();
  node.Ignore("rotary_embedding_dim");  // of a rotation that is refused
  ASYRA_RETURN_IF_ERROR(RefuseAttr(node, "do_rotary"));
  ASYRA_RETURN_IF_ERROR(RefuseAttr(node, "past_present_share_buffer"));
  if (node.rank() != 3 || node.rank(1) != 2) {
    return Invalid("the input has rank {}, the weights {}: it should be 3, 2",
                   node.rank(), node.rank(1));
  }
  ASYRA_ASSIGN_OR_RETURN(Value qkv,
                         graph.Add("matmul", {node.In(0), node.In(1)}));
  if (node.Has(2)) {
    ASYRA_ASSIGN_OR_RETURN(qkv, graph.Elementwise("add", {qkv, node.In(2)}));
  }
  int64_t width = node.type(1).size(1);
  Ints sizes = node.IntList("qkv_hidden_sizes");
  if (sizes.empty()) sizes = {width / 3, width / 3, width / 3};
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != width) {
    return Invalid("the weights have {} columns, which are not {}", width,
                   fmt::join(sizes, " + "));
  }
  int64_t heads = node.Int("num_heads", 0), at = 0;
  AttentionForm form;
  Value* parts[] = {&form.q, &form.k, &form.v};
  for (int i = 0; i < 3; ++i) {
    ASYRA_ASSIGN_OR_RETURN(Value part, Columns(node, qkv, at, sizes[i]));
    ASYRA_ASSIGN_OR_RETURN(*parts[i], SplitHeads(node, part, heads, "a part"));
    at += sizes[i];
  }
  ASYRA_RETURN_IF_ERROR(StackedPast(node, 4, &form));
  ASYRA_RETURN_IF_ERROR(AddMasks(node, 3, 5, &form));
  ASYRA_ASSIGN_OR_RETURN(Value result, AddAttention(node, std::move(form)));
  return node.Return(JoinHeads(node, result));
}

absl::Status MultiHeadAttention(Node& node) {
  if (node.Has(8) || node.Has(9)) {
    return Unimplemented(
        "past_sequence_length and cache_indirection are not supported");
  }
  if (node.WantsOutput(3)) return Unimplemented("output qk is not supported");
  if (node.Has(6) != node.Has(7)) {
    return Invalid("one of past_key and past_value is left out");
  }
  AttentionForm form;
  ASYRA_RETURN_IF_ERROR(ReadInputs(node, node.Int("num_heads", 0), &form));
  if (node.Has(3)) ASYRA_RETURN_IF_ERROR(AddBias(node, node.In(3), &form));
  for (int i : {0, 1}) {
    Value& value = i == 0 ? form.k : form.v;
    if (node.Has(6 + i)) {
      if (node.rank(6 + i) != 4) {
        return Invalid("past has rank {}, it should be 4", node.rank(6 + i));
      }
      form.start = node.type(6 + i).size(2);
      ASYRA_ASSIGN_OR_RETURN(value, AfterPast(node, node.In(6 + i), value));
    }
    if (!node.WantsOutput(1 + i)) continue;
    ASYRA_RETURN_IF_ERROR(node.SetOutput(1 + i, SwapHeads(node, value)));
  }
  ASYRA_RETURN_IF_ERROR(AddMasks(node, 4, 5, &form));
  ASYRA_ASSIGN_OR_RETURN(Value result, AddAttention(node, std::move(form)));
  return node.Return(JoinHeads(node, result));
}

absl::Status ContribRotaryEmbedding(Node& node) {
  Graph& graph = node.graph();
  ASYRA_RETURN_IF_ERROR(RefuseAttr(node, "is_packed_batching"));
  // The meaning is not documented, and ONNX Runtime's kernels ignore it.
  double scale = node.Float("scale", 1);
  if (scale != 1) return Unimplemented("scale is {:g}", scale);
  int64_t heads = node.Int("num_heads", 0);
  int64_t width = node.Int("rotary_embedding_dim", 0);
  bool interleaved = node.Int("interleaved", 0) != 0;
  if (node.rank(2) != 2) {
    return Invalid("cos_cache has rank {}, it should be 2", node.rank(2));
  }
  int64_t columns = node.type(2).size(1);
  if (width != 0 && width != 2 * columns) {
    return Invalid("rotary_embedding_dim is {}, the tables have {} columns",
                   width, columns);
  }
  absl::StatusOr<Value> x = Invalid("the input has rank {}", node.rank());
  if (node.rank() == 4) {
    x = SwapHeads(node, node.In(0));
  } else if (node.rank() == 3) {
    // Without a count of heads, the whole head is rotated.
    if (heads == 0 && columns > 0) heads = node.type().size(2) / (2 * columns);
    x = SplitHeads(node, node.In(0), heads, "the input");
  }
  if (!x.ok()) return x.status();
  // Positions of every token, or one number: that of the first.
  ASYRA_ASSIGN_OR_RETURN(Value positions, AsI64(node, node.In(1)));
  if (positions.rank() == 1) {
    ASYRA_ASSIGN_OR_RETURN(Value index,
                           graph.Iota({x->type().size(1)}, 0, DType::kI64));
    ASYRA_ASSIGN_OR_RETURN(positions,
                           graph.Elementwise("add", {positions, index}));
  }
  ASYRA_ASSIGN_OR_RETURN(
      Value result,
      AddRotary(node, *x, node.In(2), node.In(3), positions, interleaved));
  return node.Return(node.rank() == 4 ? SwapHeads(node, result)
                                      : JoinHeads(node, result));
}

}  // namespace asyra::onnx_import::ops
