#include "passes/raise_attention.h"

#include <limits>

#include "passes/attention_mask.h"
#include "passes/attention_scores.h"
#include "passes/canonicalize_rules.h"
#include "passes/rewriter.h"

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

// In `dtype`, which a cast may have left.
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

absl::StatusOr<ValueId> Emit(Rewriter& to, ValueId q, ValueId k, ValueId v,
                             const AttentionScores& scores,
                             const AttentionMask& mask) {
  std::vector<ValueId> operands = {q, k, v};
  ASYRA_ASSIGN_OR_RETURN(ValueId operand, MaskOperand(to, mask));
  if (operand != kNoValue) operands.push_back(operand);
  if (scores.sinks != kNoValue) {
    ASYRA_ASSIGN_OR_RETURN(
        ValueId sinks,
        to.Reshape(scores.sinks, {to.type(scores.sinks).num_elements()}));
    operands.push_back(sinks);
  }
  return to.Add("attention", operands,
                {{"causal", mask.causal},
                 {"window", mask.window},
                 {"scale", scores.scale},
                 {"softcap", scores.softcap},
                 {"hidden", mask.hidden}});
}

// A bool mask for -inf. Beside a finite number, scores that are all hidden
// still share the row evenly, as they do under a mask that is added.
absl::StatusOr<ValueId> SelectedMask(Rewriter& to,
                                     const AttentionScores::Selected& selected,
                                     DType dtype) {
  if (selected.hidden == -std::numeric_limits<double>::infinity()) {
    return selected.seen ? selected.condition
                         : to.Add("not", {selected.condition});
  }
  ValueId zero = to.Constant(Tensor::FromDoubles(dtype, {}, {0}));
  ValueId hidden =
      to.Constant(Tensor::FromDoubles(dtype, {}, {selected.hidden}));
  if (!selected.seen) std::swap(zero, hidden);
  return to.Add("select", {selected.condition, zero, hidden});
}

absl::StatusOr<ValueId> ScaledMask(Rewriter& to,
                                   const AttentionScores::Added& added) {
  if (added.factor == 1) return added.mask;
  ValueId factor = to.Constant(
      Tensor::FromDoubles(to.type(added.mask).dtype, {}, {added.factor}));
  return to.Add("mul", {added.mask, factor});
}

// A mask of [N, S, T] belongs to [N, 1, S, T].
absl::StatusOr<ValueId> MaskOfRank3(Rewriter& to, ValueId mask, int rank) {
  if (rank != 3 || to.type(mask).rank() != 3) return mask;
  return BatchHeads(to, mask);
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
  int64_t queries = op.type.size(rank - 2);
  int64_t keys = to.type(v).size(rank - 2);
  for (const AttentionScores::Selected& selected : scores.selected) {
    ASYRA_ASSIGN_OR_RETURN(ValueId value, SelectedMask(to, selected, dtype));
    scores.masks.push_back({value, 1});
  }
  std::vector<ValueId> masks;
  for (const AttentionScores::Added& added : scores.masks) {
    ASYRA_ASSIGN_OR_RETURN(ValueId value, ScaledMask(to, added));
    ASYRA_ASSIGN_OR_RETURN(value, MaskOfRank3(to, value, rank));
    masks.push_back(value);
  }
  ASYRA_ASSIGN_OR_RETURN(AttentionMask mask,
                         ReadMasks(to, masks, queries, keys));
  ASYRA_ASSIGN_OR_RETURN(q, BatchHeads(to, q));
  int64_t batch = to.type(q).size(0), heads = to.type(q).size(1);
  ASYRA_ASSIGN_OR_RETURN(k, KeyOrValue(to, k, batch));
  ASYRA_ASSIGN_OR_RETURN(v, KeyOrValue(to, v, batch));
  if (to.type(k).size(2) != to.type(v).size(2) ||
      heads % to.type(k).size(2) != 0) {
    return kNoValue;
  }
  ASYRA_ASSIGN_OR_RETURN(q, to.Transpose(q, kSwapHeads));
  ASYRA_ASSIGN_OR_RETURN(ValueId result, Emit(to, q, k, v, scores, mask));
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
  // Lengths, sinks and moved rows see keys in ways that are left alone.
  bool plain =
      op.is("attention") && op.arity() == 4 && to.type(op.in(3)).rank() == 4 &&
      op.op.attrs.Int("offset") == 0 && op.op.attrs.Int("window_after") == 0 &&
      !op.op.attrs.Bool("at_end");
  if (!plain) return kNoValue;
  ASYRA_ASSIGN_OR_RETURN(AttentionMask mask,
                         ReadMasks(to, {op.in(3)}, to.type(op.in(0)).size(1),
                                   to.type(op.in(1)).size(1)));
  if (!mask.found) return kNoValue;
  int64_t window = op.op.attrs.Int("window");
  bool causal = op.op.attrs.Bool("causal");
  double hidden = op.op.attrs.Float("hidden");
  if (causal || window > 0) {
    // Keys hidden by the op and by the mask would have to score alike.
    bool adds = mask.causal || mask.window > 0;
    if (adds && mask.hidden != hidden) return kNoValue;
    mask.hidden = hidden;
  }
  mask.causal |= causal;
  if (mask.window == 0 || (window > 0 && window < mask.window)) {
    mask.window = window;
  }
  AttentionScores scores;
  scores.scale = op.op.attrs.Float("scale");
  scores.softcap = op.op.attrs.Float("softcap");
  return Emit(to, op.in(0), op.in(1), op.in(2), scores, mask);
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

// The canonical rules run on the way, so that scales, heads and transposes
// that are in one another's way get out of it.
constexpr Rewriter::Rule kRules[] = {
    FindAttention,  TakeRepeats, TakeMask,   TakeScale,   FoldConstants,
    RemoveIdentity, Respell,     MergeViews, SinkReshape, SinkTranspose};

}  // namespace

absl::StatusOr<bool> RaiseAttention(Program& program, const PassOptions&,
                                    PassContext& context) {
  ASYRA_ASSIGN_OR_RETURN(bool changed, Rewrite(program, kRules));
  if (!changed) {
    context.Remark(
        "raise_attention: no decomposed attention, no repeated "
        "heads and no mask that attributes can say");
  }
  return changed;
}

}  // namespace asyra
