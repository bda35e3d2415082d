#include "passes/raise_attention.h"

#include <cmath>
#include <limits>

#include "passes/attention_mask.h"
#include "passes/canonicalize_rules.h"
#include "passes/op_shape.h"
#include "passes/rewriter.h"

namespace asyra {
namespace {

using NewOp = Rewriter::NewOp;

const Ints kSwapHeads = {0, 2, 1, 3};

struct Scores {
  ValueId q = kNoValue, k = kNoValue;  // [.., S, D] and [.., T, D]
  bool k_transposed = false;           // k is [.., D, T]
  double scale = 1, softcap = 0;
  bool clamped = false;      // max(masked scores, the lowest number)
  ValueId sinks = kNoValue;  // [1, H, 1, 1]: scores beside those of the keys
  struct Added {
    ValueId mask;
    double factor;  // of what is added
  };
  std::vector<Added> masks;
  // select(condition, scores, number), or with the branches swapped.
  struct Selected {
    ValueId condition;
    bool seen;  // scores where the condition holds
    double hidden;
  };
  std::vector<Selected> selected;
};

const Op* FloatCast(const Rewriter& in, ValueId value) {
  const Op* cast = in.Def(value, "cast");
  return cast != nullptr && IsFloat(in.type(cast->operands[0]).dtype) ? cast
                                                                      : nullptr;
}

// Peels x * c and x / c, and casts between float types.
ValueId WithoutScale(Rewriter& in, ValueId value, double* scale) {
  while (true) {
    const Op* op = in.Def(value);
    double number;
    if (op == nullptr) return value;
    if (const Op* cast = FloatCast(in, value)) {
      value = cast->operands[0];
    } else if (op->def->name == "mul" && in.Uniform(op->operands[1], &number) &&
               in.type(op->operands[0]).dims == in.type(value).dims) {
      *scale *= number;
      value = op->operands[0];
    } else if (op->def->name == "mul" && in.Uniform(op->operands[0], &number) &&
               in.type(op->operands[1]).dims == in.type(value).dims) {
      *scale *= number;
      value = op->operands[1];
    } else if (op->def->name == "div" && in.Uniform(op->operands[1], &number) &&
               in.type(op->operands[0]).dims == in.type(value).dims) {
      *scale /= number;
      value = op->operands[0];
    } else {
      return value;
    }
  }
}

// Scores before any mask, times `outer`: c * tanh(q k^T * s / c), or q k^T * s.
bool ReadProduct(Rewriter& in, ValueId core, double outer, Scores* scores) {
  double inner = 1;
  if (const Op* tanh = in.Def(core, "tanh")) {
    scores->softcap = outer;
    core = WithoutScale(in, tanh->operands[0], &inner);
    if (outer <= 0) return false;
  }
  const Op* matmul = in.Def(core, "matmul");
  if (matmul == nullptr || matmul->attrs.Bool("transpose_a")) return false;
  scores->scale = outer * inner;
  scores->q = WithoutScale(in, matmul->operands[0], &scores->scale);
  scores->k = WithoutScale(in, matmul->operands[1], &scores->scale);
  scores->k_transposed = !matmul->attrs.Bool("transpose_b");
  return true;
}

// The lowest finite number: of all others, max with it changes -inf only.
double LowestOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return -65504;
    case DType::kBF16:
      return -3.3895313892515355e38;
    case DType::kF32:
      return std::numeric_limits<float>::lowest();
    default:
      return std::numeric_limits<double>::lowest();
  }
}

// Whether each element of an added mask is known to be finite.
bool IsFinite(Rewriter& in, ValueId mask) {
  const Fact& fact = in.fact(mask);
  if (fact.kind == Fact::kAffine) return std::isfinite(fact.affine.offset);
  if (fact.kind == Fact::kPredicate) {
    return std::isfinite(fact.yes) && std::isfinite(fact.no);
  }
  const Op* select = in.Def(mask, "select");
  double yes, no;
  return select != nullptr && in.Uniform(select->operands[1], &yes) &&
         in.Uniform(select->operands[2], &no) && std::isfinite(yes) &&
         std::isfinite(no);
}

// Where max(scores + mask, lowest) is scores + mask: one mask that leaves every
// score finite.
bool ClampsNothing(Rewriter& in, const Scores& scores) {
  return scores.selected.empty() && scores.masks.size() <= 1 &&
         (scores.masks.empty() || IsFinite(in, scores.masks[0].mask));
}

// Takes masks and scales off, in any order, until the product is reached;
// `factor` is what has been taken off around `value`.
bool ReadScores(Rewriter& in, ValueId value, double factor, Scores* scores) {
  value = WithoutScale(in, value, &factor);
  const Op* op = in.Def(value);
  if (op == nullptr) return false;
  if (op->def->name == "add") {
    for (int i : {0, 1}) {
      if (in.type(op->operands[i]).dims != in.type(value).dims) continue;
      Scores tried = *scores;
      tried.masks.push_back({op->operands[1 - i], factor});
      if (!ReadScores(in, op->operands[i], factor, &tried)) continue;
      *scores = tried;
      return true;
    }
    return false;
  }
  if (op->def->name == "max") {
    for (int i : {0, 1}) {
      double lowest;
      if (in.Uniform(op->operands[1 - i], &lowest) &&
          lowest == LowestOf(in.type(value).dtype) &&
          in.type(op->operands[i]).dims == in.type(value).dims) {
        scores->clamped = true;
        return ReadScores(in, op->operands[i], factor, scores);
      }
    }
    return false;
  }
  if (op->def->name == "select") {
    DType dtype = in.type(value).dtype;
    for (int i : {1, 2}) {
      double other;
      if (!in.Uniform(op->operands[3 - i], &other) ||
          !Hides(other * factor, dtype) ||
          in.type(op->operands[i]).dims != in.type(value).dims) {
        continue;
      }
      scores->selected.push_back({op->operands[0], i == 1, other * factor});
      return ReadScores(in, op->operands[i], factor, scores);
    }
    return false;
  }
  return ReadProduct(in, value, factor, scores);
}

bool IsLast(const Rewriter& in, const Op& op) {
  return IsAlongLast(op, in.type(op.operands[0]));
}

// What softmax gives the same weights for: x of x - max(x) along the last
// dimension.
ValueId WithoutLargest(const Rewriter& in, ValueId value) {
  const Op* sub = in.Def(value, "sub");
  const Op* largest =
      sub == nullptr ? nullptr : in.Def(sub->operands[1], "reduce_max");
  if (largest == nullptr || largest->operands[0] != sub->operands[0] ||
      !largest->attrs.Bool("keep")) {
    return value;
  }
  const Ints& dims = largest->attrs.Get<Ints>("dims");
  int rank = in.type(value).rank();
  bool last = dims.size() == 1 && NormalizeDim(dims[0], rank) == rank - 1;
  return last ? sub->operands[0] : value;
}

// One number a head, [1, H, 1, 1], repeated to [B, H, S, 1].
ValueId ReadSinks(const Rewriter& in, ValueId value) {
  Shape shape = in.type(value).shape();
  if (shape.size() != 4 || shape[3] != 1) return kNoValue;
  Shape one = {1, shape[1], 1, 1};
  if (shape == one) return value;
  const Op* broadcast = in.Def(value, "broadcast");
  bool repeats =
      broadcast != nullptr && in.type(broadcast->operands[0]).shape() == one;
  return repeats ? broadcast->operands[0] : kNoValue;
}

// Takes off what a sink adds: softmax(concat(scores, sinks)) of which the
// weights of the keys are sliced out again.
bool WithoutSinks(Rewriter& in, const Op* slice, Scores* scores,
                  ValueId* logits) {
  const Op* softmax = in.Def(slice->operands[0], "softmax");
  if (softmax == nullptr || !IsLast(in, *slice) || !IsLast(in, *softmax)) {
    return false;
  }
  const Op* concat = in.Def(WithoutLargest(in, softmax->operands[0]), "concat");
  if (concat == nullptr || concat->operands.size() != 2 ||
      !IsLast(in, *concat) || slice->attrs.Int("start") != 0 ||
      slice->attrs.Int("step") != 1 ||
      slice->attrs.Int("stop") !=
          in.type(concat->operands[0]).dims.back().size) {
    return false;
  }
  scores->sinks = ReadSinks(in, concat->operands[1]);
  *logits = concat->operands[0];
  return scores->sinks != kNoValue;
}

// softmax(scores), without the guard select(is_nan(p), 0, p) and casts.
bool ReadWeights(Rewriter& in, ValueId value, Scores* scores) {
  while (const Op* cast = FloatCast(in, value)) value = cast->operands[0];
  double zero;
  if (const Op* guard = in.Def(value, "select")) {
    const Op* is_nan = in.Def(guard->operands[0], "is_nan");
    if (is_nan == nullptr || is_nan->operands[0] != guard->operands[2] ||
        !in.Uniform(guard->operands[1], &zero) || zero != 0) {
      return false;
    }
    value = guard->operands[2];
  }
  while (const Op* cast = FloatCast(in, value)) value = cast->operands[0];
  if (const Op* slice = in.Def(value, "slice")) {
    ValueId logits = kNoValue;
    return WithoutSinks(in, slice, scores, &logits) &&
           ReadScores(in, logits, 1, scores);
  }
  const Op* softmax = in.Def(value, "softmax");
  return softmax != nullptr && IsLast(in, *softmax) &&
         ReadScores(in, WithoutLargest(in, softmax->operands[0]), 1, scores);
}

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
                             const Scores& scores, const AttentionMask& mask) {
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
                                     const Scores::Selected& selected,
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

absl::StatusOr<ValueId> ScaledMask(Rewriter& to, const Scores::Added& added) {
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
  Scores scores;
  int rank = op.type.rank();
  if (!op.is("matmul") || rank < 3 || rank > 4 ||
      op.op.attrs.Bool("transpose_a") || op.op.attrs.Bool("transpose_b") ||
      !ReadWeights(to, op.in(0), &scores) ||
      (scores.clamped && !ClampsNothing(to, scores))) {
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
  for (const Scores::Selected& selected : scores.selected) {
    ASYRA_ASSIGN_OR_RETURN(ValueId value, SelectedMask(to, selected, dtype));
    scores.masks.push_back({value, 1});
  }
  std::vector<ValueId> masks;
  for (const Scores::Added& added : scores.masks) {
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
  Scores scores;
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
