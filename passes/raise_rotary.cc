#include "passes/raise_rotary.h"

#include "passes/half_table.h"
#include "passes/match.h"

namespace asyra {
namespace {

using NewOp = Rewriter::NewOp;

enum { kX, kCos, kSin, kLow, kHigh };

const Ints kSwapHeads = {0, 2, 1, 3};

bool AlongLast(Rewriter& in, const Op& op) {
  int rank = in.type(op.operands[0]).rank();
  return NormalizeDim(op.attrs.Int("dim"), rank) == rank - 1;
}

// A value as a range of the last dimension of another, through slices.
struct Part {
  ValueId base = kNoValue;
  int64_t start = 0, stop = 0;
};

Part PartOf(Rewriter& in, ValueId value) {
  const Type& type = in.type(value);
  Part part{value, 0, type.rank() == 0 ? 0 : type.size(type.rank() - 1)};
  while (const Op* slice = in.Def(part.base, "slice")) {
    if (!AlongLast(in, *slice) || slice->attrs.Int("step") != 1) break;
    int64_t start = slice->attrs.Int("start");
    part = {slice->operands[0], part.start + start, part.stop + start};
  }
  return part;
}

// What `low` and `high` are the halves of, as a part of their base; base is
// kNoValue if they are not.
Part WholeOf(Rewriter& in, ValueId low, ValueId high) {
  Part a = PartOf(in, low), b = PartOf(in, high);
  if (a.base != b.base || a.stop != b.start ||
      a.stop - a.start != b.stop - b.start) {
    return {};
  }
  return {a.base, a.start, b.stop};
}

// The dimension of x, rank 4, that positions are in, as the table says: where
// it has size 1 are the heads.
int PositionDim(const Rewriter& to, ValueId table, const Type& x) {
  Shape shape = to.type(table).shape();
  if (shape.size() < 2 || shape.size() > 4) return -1;
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  if (shape[1] == 1 && shape[2] == x.size(2)) return 2;
  return shape[2] == 1 && shape[1] == x.size(1) ? 1 : -1;
}

// `cos` and `sin` are of half the width of x already.
absl::StatusOr<ValueId> Emit(Rewriter& to, ValueId x, ValueId cos,
                             ValueId sin) {
  const Type type = to.type(x);
  if (type.rank() != 4 || cos == kNoValue || sin == kNoValue) return kNoValue;
  int s = PositionDim(to, cos, type);
  if (s < 0) return kNoValue;
  int64_t width = type.size(3) / 2;
  ASYRA_ASSIGN_OR_RETURN(cos, AsRotaryTable(to, cos, type, s, width));
  ASYRA_ASSIGN_OR_RETURN(sin, AsRotaryTable(to, sin, type, s, width));
  if (cos == kNoValue || sin == kNoValue ||
      to.type(cos).dims != to.type(sin).dims) {
    return kNoValue;
  }
  if (s == 1) return to.Add("rotary", {x, cos, sin});
  ASYRA_ASSIGN_OR_RETURN(ValueId heads_last, to.Transpose(x, kSwapHeads));
  ASYRA_ASSIGN_OR_RETURN(ValueId rotated,
                         to.Add("rotary", {heads_last, cos, sin}));
  return to.Transpose(rotated, kSwapHeads);
}

absl::StatusOr<ValueId> FindRotateHalf(Rewriter& to, const NewOp& op) {
  static const Pattern* pattern = new Pattern([] {
    const Pattern rotated =
        Apply("concat", {Apply("neg", {Var(kHigh)}), Var(kLow)}, AlongLast);
    return Var(kX) * Var(kCos) + rotated * Var(kSin);
  }());
  Match match;
  if (!op.is("add") || !pattern->Matches(to, op, &match)) return kNoValue;
  ValueId x = match[kX], cos = match[kCos];
  Part whole = WholeOf(to, match[kLow], match[kHigh]);
  auto is_whole = [&](ValueId value) {
    Part part = PartOf(to, value);
    return part.base == whole.base && part.start == whole.start &&
           part.stop == whole.stop;
  };
  if (!is_whole(x)) std::swap(x, cos);
  if (!is_whole(x) || to.type(x) != op.type) return kNoValue;
  ASYRA_ASSIGN_OR_RETURN(cos, HalfOf(to, cos));
  ASYRA_ASSIGN_OR_RETURN(ValueId sin, HalfOf(to, match[kSin]));
  return Emit(to, x, cos, sin);
}

// concat(low * cos - high * sin, high * cos + low * sin).
absl::StatusOr<ValueId> FindOnHalves(Rewriter& to, const NewOp& op) {
  static const Pattern* pattern = new Pattern([] {
    const Pattern low = Var(kLow), high = Var(kHigh);
    const Pattern cos = Var(kCos), sin = Var(kSin);
    return Apply("concat", {low * cos - high * sin, high * cos + low * sin},
                 AlongLast);
  }());
  Match match;
  if (!op.is("concat") || !pattern->Matches(to, op, &match)) return kNoValue;
  ValueId low = match[kLow], high = match[kHigh];
  ValueId cos = match[kCos], sin = match[kSin];
  Part whole = WholeOf(to, low, high);
  if (whole.base == kNoValue) {
    // The formula is symmetric in (low, high) and (cos, sin) but for the sign.
    whole = WholeOf(to, cos, sin);
    std::swap(low, cos);
    std::swap(high, sin);
  }
  if (whole.base == kNoValue || op.type.rank() != 4) return kNoValue;
  ASYRA_ASSIGN_OR_RETURN(ValueId x, to.Add("slice", {whole.base},
                                           {{"dim", int64_t{3}},
                                            {"start", whole.start},
                                            {"stop", whole.stop}}));
  if (to.type(x).size(3) == to.type(whole.base).size(3)) x = whole.base;
  if (to.type(x) != op.type) return kNoValue;
  return Emit(to, x, cos, sin);
}

// concat(rotary(x[:R]), x[R:]) is the rotary of x.
absl::StatusOr<ValueId> FindPartial(Rewriter& to, const NewOp& op) {
  if (!op.is("concat") || op.arity() != 2 || op.type.rank() != 4 ||
      NormalizeDim(op.op.attrs.Int("dim"), 4) != 3) {
    return kNoValue;
  }
  auto untransposed = [&](ValueId value, bool* swapped) {
    const Op* transpose = to.Def(value, "transpose");
    *swapped = transpose != nullptr &&
               transpose->attrs.Get<Ints>("perm") == kSwapHeads;
    return *swapped ? transpose->operands[0] : value;
  };
  bool swapped_out, swapped_in;
  const Op* rotary = to.Def(untransposed(op.in(0), &swapped_out), "rotary");
  if (rotary == nullptr) return kNoValue;
  const Op* first =
      to.Def(untransposed(rotary->operands[0], &swapped_in), "slice");
  const Op* rest = to.Def(op.in(1), "slice");
  if (first == nullptr || rest == nullptr || swapped_in != swapped_out ||
      first->operands[0] != rest->operands[0] || !AlongLast(to, *first) ||
      !AlongLast(to, *rest) || first->attrs.Int("step") != 1 ||
      rest->attrs.Int("step") != 1 || first->attrs.Int("start") != 0 ||
      first->attrs.Int("stop") != rest->attrs.Int("start") ||
      to.type(first->operands[0]) != op.type) {
    return kNoValue;
  }
  ValueId x = first->operands[0];
  if (swapped_in) {
    ASYRA_ASSIGN_OR_RETURN(x, to.Transpose(x, kSwapHeads));
  }
  ASYRA_ASSIGN_OR_RETURN(
      ValueId result,
      to.Add("rotary", {x, rotary->operands[1], rotary->operands[2]},
             rotary->attrs));
  return swapped_in ? to.Transpose(result, kSwapHeads) : result;
}

constexpr Rewriter::Rule kRules[] = {FindRotateHalf, FindOnHalves, FindPartial};

}  // namespace

absl::StatusOr<bool> RaiseRotary(Program& program, const PassOptions&,
                                 PassContext& context) {
  ASYRA_ASSIGN_OR_RETURN(bool changed, Rewrite(program, kRules));
  ASYRA_ASSIGN_OR_RETURN(bool folded, FoldRotaryTables(program));
  if (!changed && !folded) {
    context.Remark("raise_rotary: no decomposed rotary embedding");
  }
  return changed || folded;
}

}  // namespace asyra
