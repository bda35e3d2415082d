#include "passes/raise/raise_norm.h"

#include "passes/rewrite/match.h"
#include "passes/rewrite/rewriter.h"

namespace asyra {
namespace {

using NewOp = Rewriter::NewOp;

enum { kX, kEps, kScale };

// x times the root of `mean`, its mean square.
Pattern NormPattern(const Pattern& x, const Pattern& mean) {
  // Exporters drop an epsilon that they take for 0.
  Pattern variance = Either({mean + Scalar(kEps), mean});
  const Pattern scaled = x * Var(kScale);
  return Either({x * Rsqrt(variance), x / Sqrt(variance),
                 scaled * Rsqrt(variance), scaled / Sqrt(variance)});
}

// A vector over the last dimension of `like`, in any shape that broadcasts as
// one, as rank 1; kNoValue if it is not that.
absl::StatusOr<ValueId> AsVector(Rewriter& to, ValueId value,
                                 const Type& like) {
  const Type& type = to.type(value);
  int64_t size = like.size(like.rank() - 1);
  if (type.rank() == 0 || type.num_elements() != size ||
      type.size(type.rank() - 1) != size || type.dtype != like.dtype) {
    return kNoValue;
  }
  return to.Reshape(value, {size});
}

absl::StatusOr<ValueId> Ones(Rewriter& to, const Type& like) {
  ValueId one = to.Constant(Tensor::FromDoubles(like.dtype, {}, {1}));
  return to.Add("broadcast", {one},
                {{"shape", Ints{like.size(like.rank() - 1)}}});
}

absl::StatusOr<ValueId> Emit(Rewriter& to, const NewOp& op,
                             std::string_view name, const Match& match) {
  auto found = [&](int variable) {
    return static_cast<int>(match.values.size()) > variable ? match[variable]
                                                            : kNoValue;
  };
  double eps = 0;
  ValueId x = match[kX], scale = found(kScale);
  if (found(kEps) != kNoValue) to.Uniform(found(kEps), &eps);
  if (to.type(x) != op.type) return kNoValue;
  if (scale != kNoValue) {
    ASYRA_ASSIGN_OR_RETURN(scale, AsVector(to, scale, op.type));
    if (scale == kNoValue) return kNoValue;
  } else {
    ASYRA_ASSIGN_OR_RETURN(scale, Ones(to, op.type));
  }
  return to.Add(name, {x, scale}, {{"eps", eps}});
}

absl::StatusOr<ValueId> FindRms(Rewriter& to, const NewOp& op) {
  static const Pattern* pattern =
      new Pattern(NormPattern(Var(kX), Mean(Square(Var(kX)))));
  Match match;
  if (!pattern->Matches(to, op, &match)) return kNoValue;
  return Emit(to, op, "rms_norm", match);
}

absl::StatusOr<ValueId> FindLayer(Rewriter& to, const NewOp& op) {
  static const Pattern* pattern = new Pattern([] {
    const Pattern x = Var(kX), mean = Mean(x), centered = x - mean;
    return NormPattern(centered, Either({Mean(Square(centered)),
                                         Mean(Square(x)) - Square(mean)}));
  }());
  Match match;
  if (!pattern->Matches(to, op, &match)) return kNoValue;
  return Emit(to, op, "layer_norm", match);
}

const Op* Norm(const Rewriter& to, ValueId value) {
  const Op* op = to.Def(value, "rms_norm");
  return op != nullptr ? op : to.Def(value, "layer_norm");
}

// Ones that stand for "no scale"; of weights that is not known.
bool IsPlainOnes(Rewriter& to, ValueId value) {
  double number;
  return to.Uniform(value, &number) && number == 1;
}

absl::StatusOr<ValueId> TakeScale(Rewriter& to, const NewOp& op) {
  if (!op.is("mul")) return kNoValue;
  for (int i : {0, 1}) {
    const Op* norm = Norm(to, op.in(i));
    if (norm == nullptr || norm->operands.size() != 2 ||
        to.type(op.in(i)) != op.type || !IsPlainOnes(to, norm->operands[1])) {
      continue;
    }
    ASYRA_ASSIGN_OR_RETURN(ValueId scale, AsVector(to, op.in(1 - i), op.type));
    if (scale == kNoValue) continue;
    return to.Add(norm->def->name, {norm->operands[0], scale}, norm->attrs);
  }
  return kNoValue;
}

absl::StatusOr<ValueId> TakeBias(Rewriter& to, const NewOp& op) {
  if (!op.is("add")) return kNoValue;
  for (int i : {0, 1}) {
    const Op* norm = to.Def(op.in(i), "layer_norm");
    if (norm == nullptr || norm->operands.size() != 2 ||
        to.type(op.in(i)) != op.type) {
      continue;
    }
    ASYRA_ASSIGN_OR_RETURN(ValueId bias, AsVector(to, op.in(1 - i), op.type));
    if (bias == kNoValue) continue;
    return to.Add("layer_norm", {norm->operands[0], norm->operands[1], bias},
                  norm->attrs);
  }
  return kNoValue;
}

// norm(cast(x), cast(scale)) cast back, both casts widening ones.
absl::StatusOr<ValueId> TakeCasts(Rewriter& to, const NewOp& op) {
  if (!op.is("cast")) return kNoValue;
  const Op* norm = Norm(to, op.in(0));
  if (norm == nullptr || !IsFloat(op.type.dtype) ||
      SizeOf(op.type.dtype) >= SizeOf(to.type(op.in(0)).dtype)) {
    return kNoValue;
  }
  std::vector<ValueId> operands;
  for (ValueId value : norm->operands) {
    const Op* cast = to.Def(value, "cast");
    if (cast != nullptr && to.type(cast->operands[0]).dtype == op.type.dtype) {
      operands.push_back(cast->operands[0]);
    } else if (!operands.empty() && IsPlainOnes(to, value)) {
      ASYRA_ASSIGN_OR_RETURN(ValueId ones, Ones(to, op.type));
      operands.push_back(ones);
    } else {
      return kNoValue;
    }
  }
  return to.Add(norm->def->name, operands, norm->attrs);
}

// layer_norm is an rms_norm of x - mean(x), so it comes first.
constexpr Rewriter::Rule kRules[] = {FindLayer, FindRms, TakeScale, TakeBias,
                                     TakeCasts};

}  // namespace

absl::StatusOr<bool> RaiseNorm(Program& program, const PassOptions&,
                               PassContext& context) {
  ASYRA_ASSIGN_OR_RETURN(bool changed, Rewrite(program, kRules));
  if (!changed) context.Remark("raise_norm: no decomposed normalization");
  return changed;
}

}  // namespace asyra
