// GroupQueryAttention of com.microsoft, as its CPU kernel computes it.
//
// Keys and values of earlier steps are in buffers [B, G, P, D]. Sequence b has
// as many of them as follow from seqlens_k[b], the index of its last token
// after this step; those of this step come right after them.
#include <cmath>

#include "frontends/onnx/ops/attention_form.h"
#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

enum GqaInput {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kSeqlens,
  kTotal,
  kCos,
  kSin,
  kPositions,
  kBias,
  kSinks,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm,
};

Value Integer(int64_t value) {
  return Value::Known(Tensor::FromInts(DType::kI64, {}, {value}));
}

class GroupQuery {
 public:
  explicit GroupQuery(Node& node) : node_(node), graph_(node.graph()) {}

  absl::Status Run() {
    ASYRA_RETURN_IF_ERROR(node_.Require({kSeqlens, kTotal}));
    ASYRA_RETURN_IF_ERROR(RefuseForms());
    ASYRA_RETURN_IF_ERROR(ReadHeads());
    ASYRA_RETURN_IF_ERROR(ReadLengths());
    ASYRA_RETURN_IF_ERROR(Normalize(kQueryNorm, &form_.q));
    ASYRA_RETURN_IF_ERROR(Normalize(kKeyNorm, &form_.k));
    ASYRA_RETURN_IF_ERROR(Rotate());
    ASYRA_RETURN_IF_ERROR(JoinPast(kPastKey, 1, &form_.k));
    ASYRA_RETURN_IF_ERROR(JoinPast(kPastValue, 2, &form_.v));
    SetForm();
    ASYRA_ASSIGN_OR_RETURN(Value result, AddAttention(node_, std::move(form_)));
    return node_.Return(JoinHeads(node_, result));
  }

 private:
  absl::Status RefuseForms() {
    for (const char* name : {"k_quant_type", "v_quant_type"}) {
      std::string type = node_.String(name, "NONE");
      if (type != "NONE") return Unimplemented("{} is {}", name, type);
    }
    for (const char* name :
         {"kv_cache_bit_width", "sliding_window_cache", "qk_output"}) {
      int64_t value = node_.Int(name, 0);
      if (value != 0) return Unimplemented("{} is {}", name, value);
    }
    if (node_.Has(kKeyScale) || node_.Has(kValueScale)) {
      return Unimplemented("quantized keys and values are not supported");
    }
    if (node_.WantsOutput(3)) {
      return Unimplemented("output output_qk is not supported");
    }
    if (node_.Has(kPastKey) != node_.Has(kPastValue)) {
      return Invalid("one of past_key and past_value is left out");
    }
    return absl::OkStatus();
  }

  // Queries, keys and values are in three inputs, or in one.
  absl::Status ReadHeads() {
    int64_t heads = node_.Int("num_heads", 0);
    int64_t kv_heads = node_.Int("kv_num_heads", 0);
    constexpr int64_t kMost = int64_t{1} << 32;
    if (heads < 1 || kv_heads < 1 || heads > kMost || kv_heads > kMost ||
        node_.rank() != 3) {
      return Invalid("query has rank {}, num_heads is {}, kv_num_heads {}",
                     node_.rank(), heads, kv_heads);
    }
    Value q = node_.In(kQuery), k = q, v = q;
    if (node_.Has(kKey) && node_.Has(kValue)) {
      k = node_.In(kKey);
      v = node_.In(kValue);
    } else {
      int64_t width = node_.type().size(2), all = heads + 2 * kv_heads;
      if (all > width || width % all != 0) {
        return Invalid("query has {} columns for {} heads of q, k and v", width,
                       all);
      }
      int64_t of_q = heads * (width / all), of_k = kv_heads * (width / all);
      ASYRA_ASSIGN_OR_RETURN(q, graph_.Slice(q, 2, 0, of_q));
      ASYRA_ASSIGN_OR_RETURN(k, graph_.Slice(k, 2, of_q, of_q + of_k));
      ASYRA_ASSIGN_OR_RETURN(v, graph_.Slice(v, 2, of_q + of_k, width));
    }
    ASYRA_ASSIGN_OR_RETURN(form_.q, SplitHeads(node_, q, heads, "query"));
    ASYRA_ASSIGN_OR_RETURN(form_.k, SplitHeads(node_, k, kv_heads, "key"));
    ASYRA_ASSIGN_OR_RETURN(form_.v, SplitHeads(node_, v, kv_heads, "value"));
    queries_ = form_.q.type().size(1);
    return absl::OkStatus();
  }

  // Reads how many keys each sequence has already. If the queries are the whole
  // sequence, it is the first step, and existing buffers are still empty.
  // Shorter sequences are padded on the right, where no valid query looks.
  absl::Status ReadLengths() {
    ASYRA_ASSIGN_OR_RETURN(Ints total,
                           node_.KnownInts(kTotal, "total_sequence_length"));
    if (total.size() != 1 || total[0] < queries_) {
      return Invalid("total_sequence_length is {} for {} queries",
                     ShapeToString(total), queries_);
    }
    int64_t buffer = 0;
    if (node_.Has(kPastKey)) {
      if (node_.rank(kPastKey) != 4) {
        return Invalid("past_key has rank {}, it should be 4",
                       node_.rank(kPastKey));
      }
      buffer = node_.type(kPastKey).size(2);
    }
    keys_ = std::max(buffer, total[0]);
    first_ = total[0] == queries_;
    if (first_) return absl::OkStatus();
    if (!node_.Has(kPastKey)) {
      return Invalid(
          "total_sequence_length is {}, there are {} queries and no past",
          total[0], queries_);
    }
    Value last = node_.In(kSeqlens);
    if (!IsInteger(last.dtype()) ||
        last.type().num_elements() != form_.q.type().size(0)) {
      return Invalid("seqlens_k is {}{}, it should be i32[{}]",
                     ToString(last.dtype()), ShapeToString(last.shape()),
                     form_.q.type().size(0));
    }
    ASYRA_ASSIGN_OR_RETURN(last, graph_.Cast(last, DType::kI64));
    ASYRA_ASSIGN_OR_RETURN(last,
                           graph_.Reshape(last, {last.type().num_elements()}));
    ASYRA_ASSIGN_OR_RETURN(
        Value before, graph_.Elementwise("sub", {last, Integer(queries_ - 1)}));
    if (before.is_splat()) {
      form_.start = before.data().GetInt(0);
      if (form_.start < 0 || form_.start > buffer ||
          form_.start + queries_ > keys_) {
        return Invalid("seqlens_k is {} for {} queries and buffers of {} keys",
                       form_.start + queries_ - 1, queries_, buffer);
      }
      return absl::OkStatus();
    }
    form_.starts = std::move(before);
    return absl::OkStatus();
  }

  absl::Status Normalize(int input, Value* value) {
    if (!node_.Has(input)) return absl::OkStatus();
    absl::StatusOr<Value> normalized =
        graph_.Add("rms_norm", {*value, node_.In(input)},
                   {{"eps", node_.Float("qk_norm_epsilon", 1e-6)}});
    if (!normalized.ok()) return normalized.status();
    *value = *std::move(normalized);
    return absl::OkStatus();
  }

  absl::Status Rotate() {
    bool interleaved = node_.Int("rotary_interleaved", 0) != 0;
    node_.Ignore("qk_norm_epsilon");
    if (node_.Int("do_rotary", 0) == 0) return absl::OkStatus();
    if (!node_.Has(kCos) || !node_.Has(kSin)) {
      return Invalid("do_rotary without cos_cache and sin_cache");
    }
    ASYRA_ASSIGN_OR_RETURN(Value positions, Positions());
    for (Value* value : {&form_.q, &form_.k}) {
      ASYRA_ASSIGN_OR_RETURN(
          *value, AddRotary(node_, *value, node_.In(kCos), node_.In(kSin),
                            positions, interleaved));
    }
    return absl::OkStatus();
  }

  // [S], or [B, S] where sequences differ.
  absl::StatusOr<Value> Positions() {
    if (node_.Has(kPositions) && !first_) return node_.In(kPositions);
    ASYRA_ASSIGN_OR_RETURN(Value index,
                           graph_.Iota({queries_}, 0, DType::kI64));
    Value start = Integer(form_.start);
    if (node_.Has(kPositions)) {
      ASYRA_ASSIGN_OR_RETURN(start, FirstPosition());
    } else if (form_.starts.has_value()) {
      ASYRA_ASSIGN_OR_RETURN(
          start, graph_.Reshape(*form_.starts,
                                {form_.starts->type().num_elements(), 1}));
    }
    return start.IsSplatOf(0) ? index
                              : graph_.Elementwise("add", {index, start});
  }

  // Returns the position of the first token of the first sequence, which stands
  // for all in the first step.
  absl::StatusOr<Value> FirstPosition() {
    Value all = node_.In(kPositions);
    if (!IsInteger(all.dtype()) || all.type().num_elements() == 0) {
      return Invalid("position_ids is {}{}", ToString(all.dtype()),
                     ShapeToString(all.shape()));
    }
    ASYRA_ASSIGN_OR_RETURN(all, graph_.Cast(all, DType::kI64));
    ASYRA_ASSIGN_OR_RETURN(all,
                           graph_.Reshape(all, {all.type().num_elements()}));
    return graph_.Slice(all, 0, 0, 1);
  }

  // `value` [B, S, G, D] becomes all keys or values, [B, T, G, D]: those of the
  // past, this step's, and zeros after them.
  absl::Status JoinPast(int past, int output, Value* value) {
    if (node_.Has(past)) {
      ASYRA_ASSIGN_OR_RETURN(Value buffer, SwapHeads(node_, node_.In(past)));
      ASYRA_ASSIGN_OR_RETURN(*value, form_.starts.has_value()
                                         ? Inserted(buffer, *value)
                                         : Between(buffer, *value));
    }
    if (!node_.WantsOutput(output)) return absl::OkStatus();
    return node_.SetOutput(output, SwapHeads(node_, *value));
  }

  absl::StatusOr<Value> Between(const Value& buffer, const Value& value) {
    std::vector<Value> parts = {value};
    if (form_.start > 0) {
      ASYRA_ASSIGN_OR_RETURN(Value past,
                             graph_.Slice(buffer, 1, 0, form_.start));
      parts.insert(parts.begin(), std::move(past));
    }
    asyra::Shape rest = value.shape();
    rest[1] = keys_ - form_.start - queries_;
    if (rest[1] > 0) {
      ASYRA_ASSIGN_OR_RETURN(Value zeros, graph_.Broadcast(Zero(value), rest));
      parts.push_back(std::move(zeros));
    }
    if (parts.size() == 1) return parts[0];
    return graph_.Add("concat", parts, {{"dim", int64_t{1}}});
  }

  // Sequence b has this step's rows from starts[b] on.
  absl::StatusOr<Value> Inserted(const Value& buffer, const Value& value) {
    int64_t batch = value.type().size(0);
    ASYRA_ASSIGN_OR_RETURN(Value row,
                           graph_.Iota({batch, keys_}, 1, DType::kI64));
    ASYRA_ASSIGN_OR_RETURN(Value start,
                           graph_.Reshape(*form_.starts, {batch, 1}));
    ASYRA_ASSIGN_OR_RETURN(Value from_start,
                           graph_.Elementwise("sub", {row, start}));
    ASYRA_ASSIGN_OR_RETURN(Value now, RowsAt(node_, value, from_start));
    ASYRA_ASSIGN_OR_RETURN(Value past, RowsAt(node_, buffer, row));
    ASYRA_ASSIGN_OR_RETURN(Value is_past, Below(from_start, 0));
    ASYRA_ASSIGN_OR_RETURN(Value is_there, Below(from_start, queries_));
    ASYRA_ASSIGN_OR_RETURN(
        now, graph_.Elementwise("select", {is_there, now, Zero(value)}));
    return graph_.Elementwise("select", {is_past, past, now});
  }

  Value Zero(const Value& like) { return graph_.Scalar(0, like.dtype()); }

  // Marks which of index [B, T] are less than `end`, as [B, T, 1, 1].
  absl::StatusOr<Value> Below(const Value& index, int64_t end) {
    ASYRA_ASSIGN_OR_RETURN(Value below,
                           graph_.Elementwise("less", {index, Integer(end)}));
    const Type& type = index.type();
    return graph_.Reshape(below, {type.size(0), type.size(1), 1, 1});
  }

  void SetForm() {
    form_.causal = node_.Int("causal", 1) != 0;
    int64_t window = node_.Int("local_window_size", -1);
    if (window > 0) form_.left = window - 1;  // it counts the query itself
    double scale = node_.Float("scale", 0);
    double size = static_cast<double>(form_.q.type().size(3));
    form_.scale = scale == 0 ? 1 / std::sqrt(size) : scale;
    form_.softcap = node_.Float("softcap", 0);
    if (node_.Has(kBias)) form_.masks.push_back(node_.In(kBias));
    bool smooth = node_.Int("smooth_softmax", 0) == 1;
    if (node_.Has(kSinks)) {
      form_.sinks = node_.In(kSinks);
    } else if (smooth) {
      form_.sinks = Value::Known(graph_.Scalar(0, form_.q.dtype()).data(),
                                 {form_.q.type().size(2)});
    }
  }

  Node& node_;
  Graph& graph_;
  AttentionForm form_;
  bool first_ = false;  // of the steps
  int64_t queries_ = 0;
  int64_t keys_ = 0;  // size of the buffers; some sequences have fewer
};

}  // namespace

absl::Status GroupQueryAttention(Node& node) { return GroupQuery(node).Run(); }

}  // namespace asyra::onnx_import::ops
