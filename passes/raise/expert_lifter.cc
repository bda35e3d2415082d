#include "passes/raise/expert_lifter.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "passes/analysis/op_shape.h"

namespace asyra {
namespace {

Shape Without(const Shape& shape, size_t first) {
  return Shape(shape.begin() + static_cast<int64_t>(first), shape.end());
}

}  // namespace

// reading -------------------------------------------------------------------

ExpertLifter::Rows ExpertLifter::RowsOf(ValueId value) const {
  Shape shape = from_.type(value).shape();
  int64_t product = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    product *= shape[i];
    if (product == rows_) {
      return {static_cast<int>(i) + 1, Without(shape, i + 1)};
    }
  }
  return {};
}

const Op* ExpertLifter::Def(ValueId value) const {
  int def = def_use_.def[value];
  return def < 0 ? nullptr : &from_.ops[def];
}

const Op* ExpertLifter::Def(ValueId value, std::string_view op) const {
  const Op* def = Def(value);
  return def != nullptr && def->def->name == op ? def : nullptr;
}

ValueId ExpertLifter::WithoutReshapes(ValueId value) const {
  while (const Op* op = Def(value, "reshape")) value = op->operands[0];
  return value;
}

// The rows of `table` by integers.
bool ExpertLifter::ReadGather(ValueId value, ValueId* table,
                              ValueId* indices) const {
  const Op* op = Def(value);
  if (op == nullptr || op->operands.size() != 2) return false;
  std::string_view name = op->def->name;
  bool rows = name == "embedding" ||
              (name == "gather" && op->attrs.Int("dim") == 0) ||
              (name == "gather_nd" && op->attrs.Int("batch_dims") == 0 &&
               from_.type(op->operands[1]).dims.back().size == 1);
  if (!rows) return false;
  *table = op->operands[0];
  *indices = op->operands[1];
  return from_.type(*indices).num_elements() == rows_;
}

// Returns the value that holds the choices of top_k if `indices` are such
// choices: other integers may be negative. Bounds that choices keep anyway do
// not count.
ValueId ExpertLifter::ExpertsOf(ValueId indices) const {
  for (;;) {
    indices = WithoutReshapes(indices);
    const Op* op = Def(indices);
    if (op == nullptr) return kNoValue;
    double bound = 0;
    if (op->def->name == "cast") {
      indices = op->operands[0];
    } else if ((op->def->name == "max" &&
                to_.Uniform(to_.Mapped(op->operands[1]), &bound) &&
                bound <= 0) ||
               (op->def->name == "min" &&
                to_.Uniform(to_.Mapped(op->operands[1]), &bound) &&
                bound >= static_cast<double>(num_experts_ - 1))) {
      indices = op->operands[0];
    } else {
      break;
    }
  }
  const Op* op = Def(indices);
  bool first = op->def->name == "arg_max";
  if (!first && (op->def->name != "top_k" || op->results[1] != indices)) {
    return kNoValue;
  }
  const Type& scores = from_.type(op->operands[0]);
  bool in_range =
      IsAlongLast(*op, scores) && scores.dims.back().size == num_experts_;
  return in_range ? indices : kNoValue;
}

// A copy of its expert's part of `table` for each row.
bool ExpertLifter::IsWeights(ValueId value, ValueId* table) const {
  ValueId indices = kNoValue;
  return RowsOf(value).lead > 0 &&
         ReadGather(WithoutReshapes(value), table, &indices) &&
         from_.type(*table).size(0) == num_experts_ &&
         ExpertsOf(indices) == experts_;
}

// The tokens [tokens, hidden...] whose copies the rows are, one for each
// choice; kNoValue where they are not copies.
ValueId ExpertLifter::RepeatedTokens(ValueId value) const {
  if (RowsOf(value).lead < 0) return kNoValue;
  const Op* op = Def(WithoutReshapes(value), "broadcast");
  if (op == nullptr) return kNoValue;
  Shape to = from_.type(op->results[0]).shape();
  Shape from = from_.type(op->operands[0]).shape();
  if (from.size() != to.size()) return kNoValue;
  int64_t tokens = 1;
  size_t at = 0;
  while (at < to.size() && tokens * chosen_ != rows_) tokens *= to[at++];
  // Only the dimension of the choices is broadcast.
  while (at < to.size() && to[at] == 1) ++at;
  if (at == to.size() || to[at] != chosen_ || from[at] != 1) return kNoValue;
  from[at] = to[at];
  return from == to ? op->operands[0] : kNoValue;
}

// Experts and tokens of the rows that `body` is computed from; false where
// there are none, or several.
bool ExpertLifter::FindSources(ValueId body) {
  std::vector<ValueId> stack = {body};
  absl::flat_hash_set<ValueId> seen;
  ValueId repeated = kNoValue;
  while (!stack.empty()) {
    ValueId value = stack.back(), table = kNoValue, indices = kNoValue;
    stack.pop_back();
    const Op* op = Def(value);
    if (op == nullptr || RowsOf(value).lead < 0 || !seen.insert(value).second) {
      continue;
    }
    if (ReadGather(value, &table, &indices)) {
      num_experts_ = from_.type(table).size(0);
      ValueId experts = ExpertsOf(indices);
      if (experts == kNoValue ||
          (experts_ != kNoValue && experts != experts_)) {
        return false;
      }
      experts_ = experts;
      continue;
    }
    if (ValueId tokens = RepeatedTokens(value); tokens != kNoValue) {
      if (repeated != kNoValue && tokens != repeated) return false;
      repeated = tokens;
      continue;
    }
    stack.insert(stack.end(), op->operands.begin(), op->operands.end());
  }
  if (experts_ == kNoValue || repeated == kNoValue) return false;
  // Tokens have their own leading dimensions, which shard better than merged
  // ones.
  int64_t hidden = from_.type(repeated).num_elements() * chosen_ / rows_;
  tokens_ = kNoValue;
  for (ValueId value = repeated;;) {
    const Type& type = from_.type(value);
    if (type.rank() >= 2 && type.dims.back().size == hidden) tokens_ = value;
    const Op* reshape = Def(value, "reshape");
    if (reshape == nullptr) break;
    value = reshape->operands[0];
  }
  if (tokens_ == kNoValue) return false;
  lead_ = from_.type(tokens_).shape();
  lead_.pop_back();
  return true;
}

// adding --------------------------------------------------------------------

Shape ExpertLifter::Choices() const {
  Shape shape = lead_;
  shape.push_back(chosen_);
  return shape;
}

Shape ExpertLifter::Slots(const Shape& row) const {
  Shape shape = lead_;
  shape.back() = num_experts_;
  shape.push_back(lead_.back() / slots_.group_size * slots_.capacity);
  shape.insert(shape.end(), row.begin(), row.end());
  return shape;
}

absl::Status ExpertLifter::Dispatch() {
  ASYRA_ASSIGN_OR_RETURN(
      slots_, SlotsFor(lead_.back(), num_experts_, chosen_, percent_));
  ASYRA_ASSIGN_OR_RETURN(
      dispatched_, to_.Add("moe_dispatch", {to_.Mapped(tokens_), new_experts_},
                           {{"num_experts", num_experts_},
                            {"group_size", slots_.group_size},
                            {"capacity", slots_.capacity}}));
  return absl::OkStatus();
}

// `operand` of an elementwise op whose results have rows of `row_rank`.
absl::StatusOr<ValueId> ExpertLifter::LiftOperand(ValueId operand,
                                                  size_t row_rank) {
  Rows rows = RowsOf(operand);
  ValueId table = kNoValue;
  if (IsWeights(operand, &table)) {  // a bias, say
    Shape shape = {num_experts_, 1};
    shape.insert(shape.end(), rows.row.begin(), rows.row.end());
    return to_.Reshape(to_.Mapped(table), shape);
  }
  if (rows.lead > 0 && rows.row.size() == row_rank) return LiftValue(operand);
  // The same for all rows.
  Shape shape = from_.type(operand).shape();
  size_t keep = std::min(row_rank, shape.size());
  Shape row = Without(shape, shape.size() - keep);
  if (NumElements(row) != NumElements(shape)) return kNoValue;
  return to_.Reshape(to_.Mapped(operand), row);
}

absl::StatusOr<ValueId> ExpertLifter::LiftElementwise(const Op& op,
                                                      ValueId value) {
  std::vector<ValueId> operands;
  for (ValueId operand : op.operands) {
    ASYRA_ASSIGN_OR_RETURN(ValueId lifted,
                           LiftOperand(operand, RowsOf(value).row.size()));
    if (lifted == kNoValue) return kNoValue;
    operands.push_back(lifted);
  }
  return to_.Add(op.def->name, operands, op.attrs);
}

// The matmul of each row with its expert's weights, on either side.
absl::StatusOr<ValueId> ExpertLifter::LiftMatmul(const Op& op, ValueId value) {
  bool weights_left = false;
  ValueId table = kNoValue;
  if (IsWeights(op.operands[0], &table)) {
    weights_left = true;
  } else if (!IsWeights(op.operands[1], &table)) {
    return kNoValue;
  }
  ValueId vector = op.operands[weights_left ? 1 : 0];
  Shape matrix = RowsOf(op.operands[weights_left ? 0 : 1]).row;
  Rows rows = RowsOf(vector), result = RowsOf(value);
  if (rows.lead < 0 || rows.row.size() != 2 || matrix.size() != 2 ||
      result.row.size() != 2) {
    return kNoValue;
  }
  // One row of each expert's matmul at a time.
  int64_t in = rows.row[0] * rows.row[1];
  int64_t out = result.row[0] * result.row[1];
  if (std::max(rows.row[0], rows.row[1]) != in ||
      result.row[weights_left ? 1 : 0] != 1) {
    return kNoValue;
  }
  ASYRA_ASSIGN_OR_RETURN(ValueId lifted, LiftValue(vector));
  if (lifted == kNoValue) return kNoValue;
  ASYRA_ASSIGN_OR_RETURN(lifted, to_.Reshape(lifted, Slots({in})));
  ASYRA_ASSIGN_OR_RETURN(
      ValueId weights,
      to_.Reshape(to_.Mapped(table), {num_experts_, matrix[0], matrix[1]}));
  // Stored [out, in] on the left, [in, out] on the right.
  bool transpose = weights_left ? !op.attrs.Bool("transpose_a")
                                : op.attrs.Bool("transpose_b");
  if (matrix[transpose ? 1 : 0] != in || matrix[transpose ? 0 : 1] != out) {
    return kNoValue;
  }
  ASYRA_ASSIGN_OR_RETURN(lifted, to_.Add("grouped_matmul", {lifted, weights},
                                         {{"transpose_b", transpose},
                                          {"occupancy", slots_.occupancy}}));
  return to_.Reshape(lifted, Slots(result.row));
}

absl::StatusOr<ValueId> ExpertLifter::LiftOp(const Op& op, ValueId value) {
  Rows rows = RowsOf(value);
  std::string_view name = op.def->name;
  if (op.results.size() != 1) return kNoValue;
  if (name == "matmul") return LiftMatmul(op, value);
  if (IsElementwise(*op.def)) return LiftElementwise(op, value);
  bool slice = name == "slice";
  if (!slice && name != "reshape") return kNoValue;
  ASYRA_ASSIGN_OR_RETURN(ValueId lifted, LiftValue(op.operands[0]));
  if (lifted == kNoValue) return kNoValue;
  if (!slice) return to_.Reshape(lifted, Slots(rows.row));
  int64_t dim =
      NormalizeDim(op.attrs.Int("dim"), from_.type(op.operands[0]).rank());
  if (dim < rows.lead) return kNoValue;
  AttrMap attrs = op.attrs;
  attrs.Set("dim", dim - rows.lead + static_cast<int64_t>(lead_.size()) + 1);
  return to_.Add("slice", {lifted}, attrs);
}

absl::StatusOr<ValueId> ExpertLifter::LiftValue(ValueId value) {
  Rows rows = RowsOf(value);
  const Op* op = Def(value);
  if (rows.lead < 0 || op == nullptr) return kNoValue;
  if (auto known = lifted_.find(value); known != lifted_.end()) {
    return known->second;
  }
  absl::StatusOr<ValueId> lifted =
      RepeatedTokens(value) != kNoValue
          ? to_.Reshape(dispatched_, Slots(rows.row))
          : LiftOp(*op, value);
  if (lifted.ok()) lifted_[value] = *lifted;
  return lifted;
}

// Experts and weights by one op, where they are its results: the largest of
// softmax(logits) or sigmoid(logits), as they are or scaled to the sum 1, or
// the softmax of the largest logits, which is the same as the first scaled.
absl::StatusOr<bool> ExpertLifter::Route(ValueId scale, ValueId* weights) {
  const Op* top = Def(experts_, "top_k");
  if (scale == kNoValue || top == nullptr || !top->attrs.Bool("largest")) {
    return false;
  }
  ValueId value = WithoutReshapes(scale);
  if (const Op* cast = Def(value, "cast")) {
    value = WithoutReshapes(cast->operands[0]);
  }
  bool normalize = false;
  ValueId scores = WithoutReshapes(top->operands[0]);
  const Op* score = Def(scores);
  if (const Op* softmax = Def(value, "softmax");
      softmax != nullptr &&
      WithoutReshapes(softmax->operands[0]) == top->results[0] &&
      IsAlongLast(*softmax, from_.type(value))) {
    normalize = true;
    score = nullptr;
  } else {
    if (const Op* div = Def(value, "div")) {
      const Op* sum = Def(div->operands[1], "reduce_sum");
      int last = from_.type(value).rank() - 1;
      normalize =
          sum != nullptr && sum->attrs.Bool("keep") &&
          sum->attrs.Get<Ints>("dims").size() == 1 &&
          NormalizeDim(sum->attrs.Get<Ints>("dims")[0], last + 1) == last &&
          sum->operands[0] == div->operands[0];
      if (!normalize) return false;
      value = WithoutReshapes(div->operands[0]);
    }
    bool known =
        score != nullptr && (score->def->name == "sigmoid" ||
                             (score->def->name == "softmax" &&
                              IsAlongLast(*score, from_.type(scores))));
    if (value != top->results[0] || !known) return false;
  }
  ValueId logits = score == nullptr ? top->operands[0] : score->operands[0];
  Shape shape = lead_;
  shape.push_back(num_experts_);
  ASYRA_ASSIGN_OR_RETURN(ValueId input, to_.Reshape(to_.Mapped(logits), shape));
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<ValueId> routed,
      to_.AddAll(
          "moe_router", {input},
          {{"k", chosen_},
           {"normalize", normalize},
           {"scoring",
            std::string(score == nullptr ? "softmax" : score->def->name)}}));
  *weights = routed[0];
  new_experts_ = routed[1];
  DType dtype = from_.type(scale).dtype;
  if (to_.type(*weights).dtype != dtype) {
    ASYRA_ASSIGN_OR_RETURN(*weights,
                           to_.Add("cast", {*weights}, {{"to", dtype}}));
  }
  return true;
}

absl::StatusOr<ValueId> ExpertLifter::LiftSum(const Op& sum, ValueId body,
                                              ValueId scale) {
  experts_ = tokens_ = kNoValue;
  lifted_.clear();
  if (!FindSources(body)) return kNoValue;
  ValueId weights = kNoValue;
  ASYRA_ASSIGN_OR_RETURN(bool routed, Route(scale, &weights));
  if (!routed) {
    ASYRA_ASSIGN_OR_RETURN(new_experts_,
                           to_.Reshape(to_.Mapped(experts_), Choices()));
    if (scale != kNoValue) {
      ASYRA_ASSIGN_OR_RETURN(weights,
                             to_.Reshape(to_.Mapped(scale), Choices()));
    } else {
      ValueId one =
          to_.Constant(Tensor::FromDoubles(from_.type(body).dtype, {}, {1}));
      Shape shape = Choices();
      ASYRA_ASSIGN_OR_RETURN(
          weights, to_.Add("broadcast", {one},
                           {{"shape", Ints(shape.begin(), shape.end())}}));
    }
  }
  ASYRA_RETURN_IF_ERROR(Dispatch());
  ASYRA_ASSIGN_OR_RETURN(ValueId rows, LiftValue(body));
  if (rows == kNoValue) return kNoValue;
  Shape result = from_.type(sum.results[0]).shape();
  int64_t hidden = NumElements(RowsOf(body).row);
  ASYRA_ASSIGN_OR_RETURN(rows, to_.Reshape(rows, Slots({hidden})));
  ASYRA_ASSIGN_OR_RETURN(rows,
                         to_.Add("moe_combine", {rows, new_experts_, weights},
                                 {{"group_size", slots_.group_size}}));
  return to_.Reshape(rows, result);
}

absl::StatusOr<ValueId> ExpertLifter::Lift(const Op& sum) {
  if (sum.def->name != "reduce_sum") return kNoValue;
  const Ints& dims = sum.attrs.Get<Ints>("dims");
  ValueId terms = sum.operands[0];
  Shape shape = from_.type(terms).shape();
  if (dims.size() != 1 || shape.size() < 2 || NumElements(shape) == 0) {
    return kNoValue;
  }
  int dim = NormalizeDim(dims[0], static_cast<int>(shape.size()));
  chosen_ = shape[dim];
  rows_ = NumElements(Shape(shape.begin(), shape.begin() + dim + 1));
  if (dim == 0 || rows_ == 1) return kNoValue;
  ValueId product = WithoutReshapes(terms);
  const Op* mul = Def(product, "mul");
  for (size_t i = 0; mul != nullptr && i < 2; ++i) {
    ValueId scale = mul->operands[i], body = mul->operands[1 - i];
    if (from_.type(scale).num_elements() != rows_ || RowsOf(scale).lead < 0 ||
        RowsOf(product).lead < 0 || from_.type(body) != from_.type(product)) {
      continue;
    }
    ASYRA_ASSIGN_OR_RETURN(ValueId lifted, LiftSum(sum, body, scale));
    if (lifted != kNoValue) return lifted;
  }
  return LiftSum(sum, terms, kNoValue);
}

}  // namespace asyra
