#include "passes/raise/raise_attention.h"

#include <optional>
#include <set>

#include "passes/raise/attention_scores.h"
#include "passes/raise/canonicalize_rules.h"
#include "passes/rewrite/rewriter.h"

namespace asyra {
namespace {

using NewOp = Rewriter::NewOp;

const Ints kSwapHeads = {0, 2, 1, 3};

// The value whose dimension `heads` was repeated, each element next to its
// copies, to give `value`; or `value` itself.
absl::StatusOr<ValueId> Unrepeated(Rewriter& to, ValueId value, int heads) {
  const Op* op = to.Def(value);
  if (op == nullptr) return value;
  Shape shape = to.type(value).shape();
  std::string_view name = op->def->name;
  ValueId operand = op->operands.empty() ? kNoValue : op->operands[0];
  if (name == "transpose") {
    const Ints& perm = op->attrs.Get<Ints>("perm");
    int dim = NormalizeDim(perm[heads], static_cast<int>(perm.size()));
    ASYRA_ASSIGN_OR_RETURN(ValueId source, Unrepeated(to, operand, dim));
    return source == operand ? value : to.Transpose(source, perm);
  }
  if (name == "broadcast") {
    Shape one = shape;
    one[heads] = 1;
    return to.type(operand).shape() == one ? operand : value;
  }
  const Op* broadcast =
      name == "reshape" ? to.Def(operand, "broadcast") : nullptr;
  if (broadcast == nullptr) return value;
  // [.., G, 1, ..] -> [.., G, R, ..] -> [.., G R, ..].
  Shape split = to.type(operand).shape();
  Shape source = to.type(broadcast->operands[0]).shape();
  if (split.size() != shape.size() + 1 || source.size() != split.size() ||
      split[heads] * split[heads + 1] != shape[heads] ||
      source[heads + 1] != 1) {
    return value;
  }
  Shape merged = shape;
  merged[heads] = split[heads];
  source.erase(source.begin() + heads + 1);
  if (source != merged) return value;
  return to.Reshape(broadcast->operands[0], merged);
}

// Returns the value in `dtype`, which a cast may have left.
ValueId InDType(const Rewriter& in, ValueId value, DType dtype) {
  if (in.type(value).dtype == dtype) return value;
  const Op* cast = in.Def(value, "cast");
  bool fits = cast != nullptr && in.type(cast->operands[0]).dtype == dtype;
  return fits ? cast->operands[0] : kNoValue;
}

absl::StatusOr<ValueId> BatchHeads(Rewriter& to, ValueId value) {
  Shape shape = to.type(value).shape();
  if (shape.size() == 3) shape.insert(shape.begin() + 1, 1);
  return to.Reshape(value, shape);
}

// [B, H, T, D] as attention takes it: [B, T, H, D] with B batches, heads not
// repeated.
absl::StatusOr<ValueId> KeyOrValue(Rewriter& to, ValueId value, int64_t batch) {
  ASYRA_ASSIGN_OR_RETURN(value, BatchHeads(to, value));
  ASYRA_ASSIGN_OR_RETURN(value, Unrepeated(to, value, 1));
  Shape shape = to.type(value).shape();
  if (shape[0] != batch) {
    shape[0] = batch;
    ASYRA_ASSIGN_OR_RETURN(
        value, to.Add("broadcast", {value},
                      {{"shape", Ints(shape.begin(), shape.end())}}));
  }
  return to.Transpose(value, kSwapHeads);
}

ScoreShape ScoresOf(const Rewriter& in, ValueId q, ValueId k) {
  return {4, in.type(q).size(1), in.type(k).size(1)};
}

absl::StatusOr<ValueId> Emit(Rewriter& to, ValueId q, ValueId k, ValueId v,
                             const AttentionScores& scores,
                             const AttentionMask& mask, ValueId operand) {
  std::vector<ValueId> operands = {q, k, v};
  if (operand != kNoValue) operands.push_back(operand);
  if (scores.sinks != kNoValue) {
    ASYRA_ASSIGN_OR_RETURN(
        ValueId sinks,
        to.Reshape(scores.sinks, {to.type(scores.sinks).num_elements()}));
    operands.push_back(sinks);
  }
  // Beside a sink no row is empty.
  bool empty_is_nan =
      mask.may_be_empty && !scores.guarded && scores.sinks == kNoValue;
  return to.Add("attention", operands,
                {{"causal", mask.band.causal},
                 {"window", mask.band.window},
                 {"scale", scores.scale},
                 {"softcap", scores.softcap},
                 {"hidden", mask.hidden},
                 {"empty_is_nan", empty_is_nan}});
}

absl::StatusOr<ValueId> FindAttention(Rewriter& to, const NewOp& op) {
  AttentionScores scores;
  int rank = op.type.rank();
  if (!op.is("matmul") || rank < 3 || rank > 4 ||
      op.op.attrs.Bool("transpose_a") || op.op.attrs.Bool("transpose_b") ||
      !ReadAttentionWeights(to, op.in(0), &scores)) {
    return kNoValue;
  }
  DType dtype = op.type.dtype;
  ValueId q = InDType(to, scores.q, dtype), k = InDType(to, scores.k, dtype);
  ValueId v = op.in(1);
  for (ValueId value : {q, k, v}) {
    if (value == kNoValue || to.type(value).rank() != rank) return kNoValue;
  }
  // Batches and heads of the queries are those of the result.
  for (int d = 0; d + 2 < rank; ++d) {
    if (to.type(q).size(d) != op.type.size(d)) return kNoValue;
  }
  if (scores.k_transposed) {
    Ints perm;
    for (int d = 0; d < rank; ++d) perm.push_back(d);
    std::swap(perm[rank - 1], perm[rank - 2]);
    ASYRA_ASSIGN_OR_RETURN(k, to.Transpose(k, perm));
  }
  ASYRA_ASSIGN_OR_RETURN(q, BatchHeads(to, q));
  int64_t batch = to.type(q).size(0), heads = to.type(q).size(1);
  ASYRA_ASSIGN_OR_RETURN(k, KeyOrValue(to, k, batch));
  ASYRA_ASSIGN_OR_RETURN(v, KeyOrValue(to, v, batch));
  if (to.type(k).size(2) != to.type(v).size(2) ||
      heads % to.type(k).size(2) != 0) {
    return kNoValue;
  }
  ASYRA_ASSIGN_OR_RETURN(q, to.Transpose(q, kSwapHeads));
  ScoreShape shape = ScoresOf(to, q, k);
  shape.rank = rank;
  std::string why;
  ASYRA_ASSIGN_OR_RETURN(std::optional<AttentionMask> mask,
                         CombineMasks(to, scores.masks, shape, &why));
  if (!mask.has_value()) {
    to.Note(fmt::format("%{} stays softmax and matmuls, not one attention: {}",
                        to.hint(), why));
    return kNoValue;
  }
  ASYRA_ASSIGN_OR_RETURN(ValueId operand, MaskOperand(to, *mask, shape));
  ASYRA_ASSIGN_OR_RETURN(ValueId result,
                         Emit(to, q, k, v, scores, *mask, operand));
  ASYRA_ASSIGN_OR_RETURN(result, to.Transpose(result, kSwapHeads));
  return to.Reshape(result, op.type.shape());
}

absl::StatusOr<ValueId> TakeRepeats(Rewriter& to, const NewOp& op) {
  if (!op.is("attention")) return kNoValue;
  ASYRA_ASSIGN_OR_RETURN(ValueId k, Unrepeated(to, op.in(1), 2));
  ASYRA_ASSIGN_OR_RETURN(ValueId v, Unrepeated(to, op.in(2), 2));
  if (k == op.in(1) || v == op.in(2) ||
      to.type(k).size(2) != to.type(v).size(2)) {
    return kNoValue;
  }
  std::vector<ValueId> operands(op.op.operands.begin(), op.op.operands.end());
  operands[1] = k;
  operands[2] = v;
  return to.Add("attention", operands, op.op.attrs);
}

absl::StatusOr<ValueId> TakeMask(Rewriter& to, const NewOp& op) {
  // Attention with lengths, sinks or moved rows is not changed.
  bool plain =
      op.is("attention") && op.arity() == 4 && to.type(op.in(3)).rank() == 4 &&
      op.op.attrs.Int("offset") == 0 && op.op.attrs.Int("window_after") == 0 &&
      !op.op.attrs.Bool("at_end");
  if (!plain) return kNoValue;
  MaskStep hides = {
      .kind = MaskStep::kSelect,
      .hidden = op.op.attrs.Float("hidden"),
      .band = {op.op.attrs.Bool("causal"), op.op.attrs.Int("window")}};
  if (op.type.dtype == DType::kF64) hides.dtype = DType::kF64;
  MaskStep adds = {.mask = op.in(3), .dtype = hides.dtype};
  bool is_bool = to.type(op.in(3)).dtype == DType::kBool;
  if (is_bool) hides.mask = op.in(3);
  std::vector<MaskStep> steps = {hides};
  if (!is_bool) steps.push_back(adds);
  ScoreShape shape = ScoresOf(to, op.in(0), op.in(1));
  std::string why;
  ASYRA_ASSIGN_OR_RETURN(std::optional<AttentionMask> mask,
                         CombineMasks(to, steps, shape, &why));
  if (!mask.has_value()) return kNoValue;
  ASYRA_ASSIGN_OR_RETURN(ValueId operand, MaskOperand(to, *mask, shape));
  if (operand == op.in(3) && mask->band == hides.band) return kNoValue;
  AttentionScores scores;
  scores.scale = op.op.attrs.Float("scale");
  scores.softcap = op.op.attrs.Float("softcap");
  scores.guarded = !op.op.attrs.Bool("empty_is_nan");
  return Emit(to, op.in(0), op.in(1), op.in(2), scores, *mask, operand);
}

// Scales of q and k become the attribute.
absl::StatusOr<ValueId> TakeScale(Rewriter& to, const NewOp& op) {
  if (!op.is("attention")) return kNoValue;
  std::vector<ValueId> operands(op.op.operands.begin(), op.op.operands.end());
  double scale = op.op.attrs.Float("scale");
  for (int i : {0, 1}) {
    ValueId plain = WithoutScale(to, operands[i], &scale);
    if (to.type(plain) != to.type(operands[i])) return kNoValue;
    operands[i] = plain;
  }
  if (operands[0] == op.in(0) && operands[1] == op.in(1)) return kNoValue;
  AttrMap attrs = op.op.attrs;
  attrs.Set("scale", scale);
  return to.Add("attention", operands, attrs);
}

// The canonical rules run in between, so that scales, heads and transposes do
// not hide each other.
constexpr Rewriter::Rule kRules[] = {
    FindAttention,  TakeRepeats, TakeMask,   TakeScale,   FoldConstants,
    RemoveIdentity, Respell,     MergeViews, SinkReshape, SinkTranspose};

}  // namespace

absl::StatusOr<bool> RaiseAttention(Program& program, const PassOptions&,
                                    PassContext& context) {
  Rewriter rewriter(program, kRules);
  ASYRA_RETURN_IF_ERROR(rewriter.CopyAll());
  ASYRA_ASSIGN_OR_RETURN(bool changed, rewriter.Finish(program));
  std::set<std::string> notes(rewriter.notes().begin(), rewriter.notes().end());
  for (const std::string& note : notes) context.Remark("{}", note);
  if (!changed) {
    context.Remark(
        "raise_attention: no decomposed attention, no repeated "
        "heads and no mask that attributes can say");
  }
  return changed;
}

}  // namespace asyra
