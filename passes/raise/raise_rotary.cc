#include "passes/raise/raise_rotary.h"

#include <optional>

#include "passes/raise/half_table.h"
#include "passes/rewrite/match.h"

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

// The range of which `low` and `high` are the halves; base is kNoValue if they
// are not.
Part WholeOf(Rewriter& in, ValueId low, ValueId high) {
  Part a = PartOf(in, low), b = PartOf(in, high);
  if (a.base != b.base || a.stop != b.start ||
      a.stop - a.start != b.stop - b.start) {
    return {};
  }
  return {a.base, a.start, b.stop};
}

// Every second element of the last dimension, from element `phase`.
struct Strided {
  ValueId base = kNoValue;
  int64_t phase = 0;
};

bool IsWith(const Shape& shape, Shape head,
            std::initializer_list<int64_t> tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return shape == head;
}

absl::StatusOr<Strided> StridedOf(Rewriter& to, ValueId value) {
  Shape shape = to.type(value).shape();
  const Op* slice = to.Def(value, "slice");
  if (slice != nullptr && AlongLast(to, *slice) &&
      slice->attrs.Int("step") == 2) {
    const Type& base = to.type(slice->operands[0]);
    bool all = base.size(base.rank() - 1) == 2 * shape.back();
    return all ? Strided{slice->operands[0], slice->attrs.Int("start")}
               : Strided{};
  }
  // x [.., 2 n] as [.., n, 2], and one of the last two.
  if (const Op* squeeze = to.Def(value, "reshape")) {
    slice = to.Def(squeeze->operands[0], "slice");
  } else if (!shape.empty() && shape.back() == 1) {
    shape.pop_back();
  }
  if (slice == nullptr || !AlongLast(to, *slice) || shape.empty()) {
    return Strided{};
  }
  const Op* pairs = to.Def(slice->operands[0], "reshape");
  if (pairs == nullptr ||
      !IsWith(to.type(slice->results[0]).shape(), shape, {1}) ||
      !IsWith(to.type(slice->operands[0]).shape(), shape, {2})) {
    return Strided{};
  }
  shape.back() *= 2;
  ASYRA_ASSIGN_OR_RETURN(ValueId base, to.Reshape(pairs->operands[0], shape));
  return Strided{base, slice->attrs.Int("start")};
}

// The value whose even and odd elements these are; kNoValue if they are not.
absl::StatusOr<ValueId> InterleaveOf(Rewriter& to, ValueId even, ValueId odd) {
  ASYRA_ASSIGN_OR_RETURN(Strided a, StridedOf(to, even));
  ASYRA_ASSIGN_OR_RETURN(Strided b, StridedOf(to, odd));
  return a.base == b.base && a.phase == 0 && b.phase == 1 ? a.base : kNoValue;
}

// [.., n] as [.., n, 1].
bool AddsLastOne(Rewriter& in, const Op& op) {
  return IsWith(in.type(op.results[0]).shape(), in.type(op.operands[0]).shape(),
                {1});
}

// a and b of [.., n] (or [.., n, 1]) as [.., n, 2]: one of each in turn, when
// the last two dimensions are seen as one.
Pattern Interleaved(const Pattern& a, const Pattern& b) {
  auto column = [](const Pattern& x) {
    return Either({Apply("reshape", {x}, AddsLastOne), x});
  };
  return Apply("concat", {column(a), column(b)}, AlongLast);
}

absl::StatusOr<ValueId> Emit(Rewriter& to, ValueId x, ValueId cos, ValueId sin,
                             bool interleaved) {
  if (cos == kNoValue || sin == kNoValue) return kNoValue;
  Shape shape = to.type(x).shape();
  std::optional<RotaryLayout> layout = FindRotaryLayout(to, cos, shape);
  if (!layout.has_value() || 2 * layout->width != shape.back()) {
    return kNoValue;
  }
  ASYRA_ASSIGN_OR_RETURN(cos, AsRotaryTable(to, cos, *layout));
  ASYRA_ASSIGN_OR_RETURN(sin, AsRotaryTable(to, sin, *layout));
  if (cos == kNoValue || sin == kNoValue ||
      to.type(cos).dims != to.type(sin).dims) {
    return kNoValue;
  }
  ASYRA_ASSIGN_OR_RETURN(x, to.Reshape(x, layout->of_x));
  if (layout->heads_first) {
    ASYRA_ASSIGN_OR_RETURN(x, to.Transpose(x, kSwapHeads));
  }
  ASYRA_ASSIGN_OR_RETURN(
      x, to.Add("rotary", {x, cos, sin}, {{"interleaved", interleaved}}));
  if (layout->heads_first) {
    ASYRA_ASSIGN_OR_RETURN(x, to.Transpose(x, kSwapHeads));
  }
  return to.Reshape(x, shape);
}

// x * cos + rotated * sin; with tables of the width of x.
absl::StatusOr<ValueId> EmitWhole(Rewriter& to, const NewOp& op, ValueId x,
                                  const Match& match, Pairing pairing) {
  ValueId cos = match[kX] == x ? match[kCos] : match[kX];
  if (to.type(x) != op.type) return kNoValue;
  ASYRA_ASSIGN_OR_RETURN(cos, HalfOf(to, cos, pairing));
  ASYRA_ASSIGN_OR_RETURN(ValueId sin, HalfOf(to, match[kSin], pairing));
  return Emit(to, x, cos, sin, pairing == Pairing::kInterleaved);
}

absl::StatusOr<ValueId> FindRotateHalf(Rewriter& to, const NewOp& op) {
  static const Pattern* pattern = new Pattern([] {
    const Pattern rotated =
        Apply("concat", {Apply("neg", {Var(kHigh)}), Var(kLow)}, AlongLast);
    return Var(kX) * Var(kCos) + rotated * Var(kSin);
  }());
  Match match;
  if (!op.is("add") || !pattern->Matches(to, op, &match)) return kNoValue;
  Part whole = WholeOf(to, match[kLow], match[kHigh]);
  if (whole.base == kNoValue) return kNoValue;
  for (ValueId x : {match[kX], match[kCos]}) {
    Part part = PartOf(to, x);
    if (part.base == whole.base && part.start == whole.start &&
        part.stop == whole.stop) {
      return EmitWhole(to, op, x, match, Pairing::kHalves);
    }
  }
  return kNoValue;
}

absl::StatusOr<ValueId> FindRotateInterleaved(Rewriter& to, const NewOp& op) {
  static const Pattern* pattern = new Pattern([] {
    const Pattern rotated =
        Apply("reshape", {Interleaved(Apply("neg", {Var(kHigh)}), Var(kLow))});
    return Var(kX) * Var(kCos) + rotated * Var(kSin);
  }());
  Match match;
  if (!op.is("add") || !pattern->Matches(to, op, &match)) return kNoValue;
  ASYRA_ASSIGN_OR_RETURN(ValueId x,
                         InterleaveOf(to, match[kLow], match[kHigh]));
  if (x == kNoValue || (x != match[kX] && x != match[kCos])) return kNoValue;
  return EmitWhole(to, op, x, match, Pairing::kInterleaved);
}

// low * cos - high * sin and high * cos + low * sin, in that order.
std::pair<Pattern, Pattern> Rotation() {
  const Pattern low = Var(kLow), high = Var(kHigh);
  const Pattern cos = Var(kCos), sin = Var(kSin);
  return {low * cos - high * sin, high * cos + low * sin};
}

// The formula is symmetric in (low, high) and (cos, sin) except for the sign.
void SwapRoles(Match* match) {
  std::swap(match->values[kLow], match->values[kCos]);
  std::swap(match->values[kHigh], match->values[kSin]);
}

// low and high as halves of one value: the value they are slices of, or their
// concat if they are its even and odd elements (DeepSeek's keys are rotated in
// pairs and returned in halves).
absl::StatusOr<ValueId> Joined(Rewriter& to, ValueId low, ValueId high) {
  Part whole = WholeOf(to, low, high);
  if (whole.base == kNoValue) {
    ASYRA_ASSIGN_OR_RETURN(ValueId x, InterleaveOf(to, low, high));
    int64_t last = to.type(low).rank() - 1;
    if (x == kNoValue || to.type(low) != to.type(high)) return kNoValue;
    return to.Add("concat", {low, high}, {{"dim", last}});
  }
  int last = to.type(whole.base).rank() - 1;
  if (whole.start == 0 && whole.stop == to.type(whole.base).size(last)) {
    return whole.base;
  }
  return to.Add(
      "slice", {whole.base},
      {{"dim", int64_t{last}}, {"start", whole.start}, {"stop", whole.stop}});
}

absl::StatusOr<ValueId> FindOnHalves(Rewriter& to, const NewOp& op) {
  static const Pattern* pattern = new Pattern([] {
    auto [low, high] = Rotation();
    return Apply("concat", {low, high}, AlongLast);
  }());
  Match match;
  if (!op.is("concat") || !pattern->Matches(to, op, &match)) return kNoValue;
  for (bool swap : {false, true}) {
    if (swap) SwapRoles(&match);
    ASYRA_ASSIGN_OR_RETURN(ValueId x, Joined(to, match[kLow], match[kHigh]));
    if (x == kNoValue || to.type(x) != op.type) continue;
    return Emit(to, x, match[kCos], match[kSin], false);
  }
  return kNoValue;
}

// The same on elements that take turns, as complex numbers do.
absl::StatusOr<ValueId> FindOnPairs(Rewriter& to, const NewOp& op) {
  static const Pattern* pattern = new Pattern([] {
    auto [low, high] = Rotation();
    return Interleaved(low, high);
  }());
  Match match;
  if (!op.is("concat") || !pattern->Matches(to, op, &match)) return kNoValue;
  ASYRA_ASSIGN_OR_RETURN(ValueId x,
                         InterleaveOf(to, match[kLow], match[kHigh]));
  if (x == kNoValue) {
    SwapRoles(&match);
    ASYRA_ASSIGN_OR_RETURN(x, InterleaveOf(to, match[kLow], match[kHigh]));
  }
  if (x == kNoValue) return kNoValue;
  Shape pairs = to.type(x).shape();
  pairs.back() /= 2;
  if (!IsWith(op.type.shape(), pairs, {2})) return kNoValue;
  ASYRA_ASSIGN_OR_RETURN(x, Emit(to, x, match[kCos], match[kSin], true));
  return x == kNoValue ? x : to.Reshape(x, op.type.shape());
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
      rest->attrs.Int("step") != 1 ||
      first->attrs.Int("stop") != rest->attrs.Int("start")) {
    return kNoValue;
  }
  ValueId x = first->operands[0];
  if (to.type(x) != op.type) {
    int64_t start = first->attrs.Int("start"), stop = rest->attrs.Int("stop");
    ASYRA_ASSIGN_OR_RETURN(
        x, to.Add("slice", {x},
                  {{"dim", int64_t{3}}, {"start", start}, {"stop", stop}}));
  }
  if (swapped_in) {
    ASYRA_ASSIGN_OR_RETURN(x, to.Transpose(x, kSwapHeads));
  }
  ASYRA_ASSIGN_OR_RETURN(
      ValueId result,
      to.Add("rotary", {x, rotary->operands[1], rotary->operands[2]},
             rotary->attrs));
  return swapped_in ? to.Transpose(result, kSwapHeads) : result;
}

constexpr Rewriter::Rule kRules[] = {FindRotateHalf, FindRotateInterleaved,
                                     FindOnHalves, FindOnPairs, FindPartial};

}  // namespace

absl::StatusOr<bool> RaiseRotary(Program& program, const PassOptions& options,
                                 PassContext& context) {
  std::optional<NamePattern> trained;
  const AttrValue* names = options.Find("trained");
  if (names != nullptr && !std::get<std::string>(*names).empty()) {
    ASYRA_ASSIGN_OR_RETURN(trained,
                           NamePattern::Parse(std::get<std::string>(*names)));
  }
  ASYRA_ASSIGN_OR_RETURN(bool changed, Rewrite(program, kRules));
  ASYRA_ASSIGN_OR_RETURN(
      bool folded,
      FoldRotaryTables(program, trained.has_value() ? &*trained : nullptr));
  if (!changed && !folded) {
    context.Remark("raise_rotary: no decomposed rotary embedding");
  }
  return changed || folded;
}

}  // namespace asyra
