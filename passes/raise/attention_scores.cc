#include "passes/raise/attention_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/analysis/op_shape.h"
#include "passes/rewrite/value_range.h"

namespace asyra {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const Op* FloatCast(const Rewriter& in, ValueId value) {
  const Op* cast = in.Def(value, "cast");
  return cast != nullptr && IsFloat(in.type(cast->operands[0]).dtype) ? cast
                                                                      : nullptr;
}

// Scores before any mask, times `outer`: c * tanh(q k^T * s / c), or q k^T * s.
bool ReadMatmul(Rewriter& in, ValueId core, double outer,
                AttentionScores* scores) {
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

// Returns whether max(scores + mask, lowest) is scores + mask: one mask that
// leaves every score finite.
bool ClampsNothing(Rewriter& in, const AttentionScores& scores) {
  if (scores.masks.empty()) return true;
  const MaskStep& mask = scores.masks[0];
  if (scores.masks.size() > 1 || mask.kind != MaskStep::kAdd) return false;
  Range range = BoundsOf(in, mask.mask);
  return range.low >= LowestNumber(in.type(mask.mask).dtype) &&
         std::isfinite(range.high);
}

// Strips masks and scales, in any order, up to the matmul; `factor` is the
// product of the scales stripped around `value`.
bool ReadScores(Rewriter& in, ValueId value, double factor,
                AttentionScores* scores) {
  value = WithoutScale(in, value, &factor);
  const Op* op = in.Def(value);
  if (op == nullptr) return false;
  if (op->def->name == "add") {
    for (int i : {0, 1}) {
      if (in.type(op->operands[i]).dims != in.type(value).dims) continue;
      AttentionScores tried = *scores;
      tried.masks.push_back({.kind = MaskStep::kAdd,
                             .mask = op->operands[1 - i],
                             .factor = factor,
                             .dtype = in.type(value).dtype});
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
          lowest == LowestNumber(in.type(value).dtype) &&
          in.type(op->operands[i]).dims == in.type(value).dims) {
        scores->clamped = true;
        return ReadScores(in, op->operands[i], factor, scores);
      }
    }
    return false;
  }
  if (op->def->name == "select") {
    for (int i : {1, 2}) {
      double other;
      if (!in.Uniform(op->operands[3 - i], &other) || !(other < kInfinity) ||
          in.type(op->operands[i]).dims != in.type(value).dims) {
        continue;
      }
      scores->masks.push_back({.kind = MaskStep::kSelect,
                               .mask = op->operands[0],
                               .seen = i == 1,
                               .hidden = other * factor,
                               .dtype = in.type(value).dtype});
      return ReadScores(in, op->operands[i], factor, scores);
    }
    return false;
  }
  return ReadMatmul(in, value, factor, scores);
}

bool IsLast(const Rewriter& in, const Op& op) {
  return IsAlongLast(op, in.type(op.operands[0]));
}

// A value with the same softmax: x for x - max(x) along the last dimension.
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

// Strips a sink: softmax(concat(scores, sinks)), of which the weights of the
// keys are sliced.
bool WithoutSinks(Rewriter& in, const Op* slice, AttentionScores* scores,
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
bool ReadWeights(Rewriter& in, ValueId value, AttentionScores* scores) {
  while (const Op* cast = FloatCast(in, value)) value = cast->operands[0];
  double zero;
  if (const Op* guard = in.Def(value, "select")) {
    const Op* is_nan = in.Def(guard->operands[0], "is_nan");
    if (is_nan == nullptr || is_nan->operands[0] != guard->operands[2] ||
        !in.Uniform(guard->operands[1], &zero) || zero != 0) {
      return false;
    }
    scores->guarded = true;
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

}  // namespace

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

bool ReadAttentionWeights(Rewriter& in, ValueId value,
                          AttentionScores* scores) {
  if (!ReadWeights(in, value, scores)) return false;
  std::reverse(scores->masks.begin(), scores->masks.end());
  if (!scores->clamped || ClampsNothing(in, *scores)) return true;
  in.Note(fmt::format(
      "%{} stays softmax and matmuls, not one attention: scores of -inf may be "
      "raised to the lowest number",
      in.hint()));
  return false;
}

}  // namespace asyra
