#include "frontends/onnx/ops/attention_form.h"

#include <limits>

namespace asyra::onnx_import::ops {
namespace {

Value Integer(int64_t value) {
  return Value::Known(Tensor::FromInts(DType::kI64, {}, {value}));
}

// Builds the mask of an attention from all conditions on visible keys.
class Masks {
 public:
  Masks(Node& node, const AttentionForm& form) : node_(node), form_(form) {}

  // The conditions that the IR's op has no attribute for.
  absl::Status AddConditions(bool with_causal, bool with_left) {
    Graph& graph = node_.graph();
    ASYRA_ASSIGN_OR_RETURN(Value row, Rows());
    ASYRA_ASSIGN_OR_RETURN(Value column, Columns());
    if (with_causal) {
      ASYRA_RETURN_IF_ERROR(
          And(graph.Elementwise("less_equal", {column, row})));
    }
    if (with_left) {
      ASYRA_ASSIGN_OR_RETURN(
          Value first, graph.Elementwise("sub", {row, Integer(*form_.left)}));
      ASYRA_RETURN_IF_ERROR(
          And(graph.Elementwise("less_equal", {first, column})));
    }
    if (form_.right.has_value()) {
      ASYRA_ASSIGN_OR_RETURN(
          Value last, graph.Elementwise("add", {row, Integer(*form_.right)}));
      ASYRA_RETURN_IF_ERROR(
          And(graph.Elementwise("less_equal", {column, last})));
    }
    if (form_.lengths.has_value()) {
      ASYRA_ASSIGN_OR_RETURN(Value lengths, PerSequence(*form_.lengths));
      ASYRA_RETURN_IF_ERROR(And(graph.Elementwise("less", {column, lengths})));
    }
    return absl::OkStatus();
  }

  absl::Status AddMask(const Value& mask) {
    asyra::Shape shape = mask.shape();
    if (shape.size() > 4) return Invalid("the mask has rank {}", shape.size());
    shape.insert(shape.begin(), 4 - shape.size(), 1);
    if (mask.dtype() == DType::kBool) {
      return And(node_.graph().Reshape(mask, shape));
    }
    if (mask.IsSplatOf(0)) return absl::OkStatus();
    absl::StatusOr<Value> added = node_.graph().Reshape(mask, shape);
    if (added.ok() && added_.has_value()) {
      added = node_.graph().Elementwise("add", {*added_, *added});
    }
    if (!added.ok()) return added.status();
    added_ = *std::move(added);
    return absl::OkStatus();
  }

  // One mask; none if everything is seen.
  absl::StatusOr<std::optional<Value>> Whole() {
    if (!seen_.has_value()) return added_;
    if (!added_.has_value()) return seen_;
    Value nothing = node_.graph().Scalar(
        -std::numeric_limits<double>::infinity(), added_->dtype());
    ASYRA_ASSIGN_OR_RETURN(
        Value mask,
        node_.graph().Elementwise("select", {*seen_, *added_, nothing}));
    return std::optional<Value>(std::move(mask));
  }

 private:
  absl::Status And(absl::StatusOr<Value> condition) {
    if (!condition.ok()) return condition.status();
    if (condition->IsSplatOf(1)) return absl::OkStatus();
    if (seen_.has_value()) {
      condition = node_.graph().Elementwise("and", {*seen_, *condition});
      if (!condition.ok()) return condition.status();
    }
    seen_ = *std::move(condition);
    return absl::OkStatus();
  }

  absl::StatusOr<Value> PerSequence(const Value& value) {
    return node_.graph().Reshape(value, {value.type().num_elements(), 1, 1, 1});
  }

  absl::StatusOr<Value> Rows() {
    Graph& graph = node_.graph();
    ASYRA_ASSIGN_OR_RETURN(
        Value row,
        graph.Iota({1, 1, form_.q.type().size(1), 1}, 2, DType::kI64));
    absl::StatusOr<Value> start = Integer(form_.start);
    if (form_.starts.has_value()) start = PerSequence(*form_.starts);
    if (!start.ok()) return start.status();
    return start->IsSplatOf(0) ? row : graph.Elementwise("add", {row, *start});
  }

  absl::StatusOr<Value> Columns() {
    return node_.graph().Iota({1, 1, 1, form_.k.type().size(1)}, 3,
                              DType::kI64);
  }

  Node& node_;
  const AttentionForm& form_;
  std::optional<Value> seen_, added_;
};

// An additional first key that every query sees; the mask gives its score.
absl::StatusOr<Value> WithSink(Node& node, const AttentionForm& form,
                               const Value& mask) {
  Graph& graph = node.graph();
  const Type &q = form.q.type(), &k = form.k.type();
  Value added = mask;
  if (mask.dtype() == DType::kBool) {
    DType dtype = form.q.dtype();
    Value nothing =
        graph.Scalar(-std::numeric_limits<double>::infinity(), dtype);
    ASYRA_ASSIGN_OR_RETURN(
        added,
        graph.Elementwise("select", {mask, graph.Scalar(0, dtype), nothing}));
  }
  ASYRA_ASSIGN_OR_RETURN(
      Value score,
      graph.Reshape(*form.sinks, {1, form.sinks->type().num_elements(), 1, 1}));
  ASYRA_ASSIGN_OR_RETURN(score, graph.Cast(score, added.dtype()));
  asyra::Shape of_scores = {added.type().size(0), q.size(2), q.size(1), 1};
  asyra::Shape of_mask = of_scores;
  of_mask[3] = k.size(1);
  ASYRA_ASSIGN_OR_RETURN(score, graph.Broadcast(score, of_scores));
  ASYRA_ASSIGN_OR_RETURN(added, graph.Broadcast(added, of_mask));
  return graph.Add("concat", {score, added}, {{"dim", int64_t{3}}});
}

absl::StatusOr<Value> WithZeroKey(Node& node, const Value& value) {
  asyra::Shape shape = value.shape();
  shape[1] = 1;
  ASYRA_ASSIGN_OR_RETURN(
      Value zero,
      node.graph().Broadcast(node.graph().Scalar(0, value.dtype()), shape));
  return node.graph().Add("concat", {zero, value}, {{"dim", int64_t{1}}});
}

}  // namespace

absl::StatusOr<Value> AddAttention(Node& node, AttentionForm form) {
  // The op's own `causal` and `window` count queries from 0, and keys too.
  bool plain =
      form.start == 0 && !form.starts.has_value() && !form.sinks.has_value();
  bool causal = form.causal && plain;
  bool window = form.left.has_value() && plain;
  Masks masks(node, form);
  ASYRA_RETURN_IF_ERROR(masks.AddConditions(form.causal && !plain,
                                            form.left.has_value() && !plain));
  for (const Value& mask : form.masks) {
    ASYRA_RETURN_IF_ERROR(masks.AddMask(mask));
  }
  ASYRA_ASSIGN_OR_RETURN(std::optional<Value> mask, masks.Whole());
  if (form.sinks.has_value()) {
    if (!mask.has_value()) {
      ASYRA_ASSIGN_OR_RETURN(
          mask, node.graph().Reshape(node.graph().Scalar(0, form.q.dtype()),
                                     {1, 1, 1, 1}));
    }
    ASYRA_ASSIGN_OR_RETURN(mask, WithSink(node, form, *mask));
    ASYRA_ASSIGN_OR_RETURN(form.k, WithZeroKey(node, form.k));
    ASYRA_ASSIGN_OR_RETURN(form.v, WithZeroKey(node, form.v));
  }
  std::vector<Value> operands = {form.q, form.k, form.v};
  if (mask.has_value()) operands.push_back(*std::move(mask));
  return node.graph().Add("attention", operands,
                          {{"causal", causal},
                           {"window", window ? *form.left + 1 : int64_t{0}},
                           {"scale", form.scale},
                           {"softcap", form.softcap}});
}

absl::StatusOr<Value> SplitHeads(Node& node, const Value& value, int64_t heads,
                                 std::string_view what) {
  if (value.rank() != 3) {
    return Invalid("{} has rank {}, it should be 3", what, value.rank());
  }
  const Type& type = value.type();
  if (heads < 1 || type.size(2) % heads != 0) {
    return Invalid("{} has {} columns for {} heads", what, type.size(2), heads);
  }
  return node.graph().Reshape(
      value, {type.size(0), type.size(1), heads, type.size(2) / heads});
}

absl::StatusOr<Value> JoinHeads(Node& node, const Value& value) {
  const Type& type = value.type();
  return node.graph().Reshape(
      value, {type.size(0), type.size(1), type.size(2) * type.size(3)});
}

absl::StatusOr<Value> SwapHeads(Node& node, const Value& value) {
  return node.graph().Transpose(value, {0, 2, 1, 3});
}

absl::StatusOr<Value> AddRotary(Node& node, const Value& x, const Value& cos,
                                const Value& sin,
                                const std::optional<Value>& positions,
                                bool interleaved) {
  std::vector<Value> operands = {x, cos, sin};
  for (int i : {1, 2}) {
    if (!positions.has_value()) break;
    ASYRA_ASSIGN_OR_RETURN(operands[i],
                           node.graph().Add("gather", {operands[i], *positions},
                                            {{"dim", int64_t{0}}}));
  }
  return node.graph().Add("rotary", operands, {{"interleaved", interleaved}});
}

absl::StatusOr<Value> RowsAt(Node& node, const Value& value,
                             const Value& index) {
  Graph& graph = node.graph();
  Value last = Integer(value.type().size(1) - 1);
  ASYRA_ASSIGN_OR_RETURN(Value at,
                         graph.Elementwise("max", {index, Integer(0)}));
  ASYRA_ASSIGN_OR_RETURN(at, graph.Elementwise("min", {at, last}));
  ASYRA_ASSIGN_OR_RETURN(
      at, graph.Reshape(at, {index.type().size(0), index.type().size(1), 1}));
  return graph.Add("gather_nd", {value, at}, {{"batch_dims", int64_t{1}}});
}

}  // namespace asyra::onnx_import::ops
