// Arithmetic, comparison, logic, choice and conversion, element by element.
#include "ir/ops/elementwise.h"

#include <cmath>

#include "ir/ops/integers.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {

absl::StatusOr<std::vector<Type>> InferArithmetic(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireSameDType(call));
  ASYRA_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(call.operands));
  return std::vector<Type>{Type(call.operands[0].dtype, shape)};
}

absl::StatusOr<std::vector<Type>> InferFloat(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  return InferArithmetic(call);
}

namespace {

absl::StatusOr<std::vector<Type>> InferCompare(const OpCall& call) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Type> types, InferArithmetic(call));
  types[0].dtype = DType::kBool;
  return types;
}

absl::StatusOr<std::vector<Type>> InferLogic(const OpCall& call) {
  if (call.operands[0].dtype != DType::kBool) {
    return Invalid("operand 0 is {}, it should be bool",
                   ToString(call.operands[0].dtype));
  }
  return InferArithmetic(call);
}

absl::Status CastReference(const RefCall& call) {
  const Tensor& in = call.operands[0];
  Tensor& out = call.results[0];
  if (IsFloat(in.dtype()) || IsFloat(out.dtype())) {
    out.SetAll(in.ToDoubles());
  } else {
    for (int64_t i = 0; i < in.num_elements(); ++i) {
      out.SetInt(i, in.GetInt(i));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Type>> InferCast(const OpCall& call) {
  return std::vector<Type>{
      Type(call.attrs.Get<DType>("to"), call.operands[0].shape())};
}

absl::StatusOr<std::vector<Type>> InferSelect(const OpCall& call) {
  if (call.operands[0].dtype != DType::kBool) {
    return Invalid("the condition is {}, it should be bool",
                   ToString(call.operands[0].dtype));
  }
  if (call.operands[1].dtype != call.operands[2].dtype) {
    return Invalid("operand 1 is {}, operand 2 is {}",
                   ToString(call.operands[1].dtype),
                   ToString(call.operands[2].dtype));
  }
  ASYRA_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(call.operands));
  return std::vector<Type>{Type(call.operands[1].dtype, shape)};
}

absl::Status SelectReference(const RefCall& call) {
  Tensor& out = call.results[0];
  auto condition = BroadcastIndex(call.operands[0].shape(), out.shape());
  auto yes = BroadcastIndex(call.operands[1].shape(), out.shape());
  auto no = BroadcastIndex(call.operands[2].shape(), out.shape());
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    bool taken = call.operands[0].GetInt(condition(i)) != 0;
    const Tensor& from = call.operands[taken ? 1 : 2];
    int64_t at = taken ? yes(i) : no(i);
    if (IsFloat(out.dtype())) {
      out.Set(i, from.Get(at));
    } else {
      out.SetInt(i, from.GetInt(at));
    }
  }
  return absl::OkStatus();
}

// The gradient of max and min goes to the operand that was chosen, and to the
// second of two equal ones.
Gradients ChoiceVjp(Gradient& g, ValueId first_is_chosen) {
  ValueId zero = g.Scalar(0, g.dy());
  return {g.Op("select", {first_is_chosen, g.dy(), zero}),
          g.Op("select", {first_is_chosen, zero, g.dy()})};
}

Gradients PowVjp(Gradient& g) {
  ValueId less_one = g.Op("pow", {g.x(0), g.Sub(g.x(1), g.Scalar(1, g.y()))});
  return {g.Mul(g.dy(), g.Mul(g.x(1), less_one)),
          g.Mul(g.dy(), g.Mul(g.y(), g.Op("log", {g.x(0)})))};
}

Gradients DivVjp(Gradient& g) {
  ValueId da = g.Div(g.dy(), g.x(1));
  return {da, g.Neg(g.Mul(da, g.y()))};
}

Gradients SelectVjp(Gradient& g) {
  ValueId zero = g.Scalar(0, g.dy());
  return {kNoValue, g.Op("select", {g.x(0), g.dy(), zero}),
          g.Op("select", {g.x(0), zero, g.dy()})};
}

Gradients CastVjp(Gradient& g) {
  DType from = g.type(g.x()).dtype;
  if (!IsFloat(from) || !IsFloat(g.type(g.y()).dtype)) return {kNoValue};
  return {g.Cast(g.dy(), from)};
}

OpDef Add() {
  OpDef def = Binary<[](auto a, auto b) { return Wrap(a) + Wrap(b); },
                     Linearity::kJoint>("add", "a + b");
  def.vjp = Vjp<[](Gradient& g) { return Gradients{g.dy(), g.dy()}; }>;
  return With(def, {{"add(f32[4,6], f32[4,6])"},
                    {"add(f32[4,6], f32[6])"},
                    {"add(i64[4,1], i64[1,6])"}});
}

OpDef Sub() {
  OpDef def = Binary<[](auto a, auto b) { return Wrap(a) - Wrap(b); },
                     Linearity::kJoint>("sub", "a - b");
  def.vjp = Vjp<[](Gradient& g) { return Gradients{g.dy(), g.Neg(g.dy())}; }>;
  return With(def, {{"sub(f32[4,6], f32[4,6])"}, {"sub(f32[6], f32[4,1])"}});
}

OpDef Mul() {
  OpDef def = Binary<[](auto a, auto b) { return Wrap(a) * Wrap(b); },
                     Linearity::kEach>("mul", "a * b");
  def.vjp = Vjp<[](Gradient& g) {
    return Gradients{g.Mul(g.dy(), g.x(1)), g.Mul(g.dy(), g.x(0))};
  }>;
  return With(def,
              {{"mul(f32[4,6], f32[4,6])"}, {"mul(f32[2,4,6], f32[4,1])"}});
}

OpDef Max() {
  OpDef def = Binary<[](auto a, auto b) { return Maximum(a, b); }>(
      "max", "the larger of a and b, NaN where either is");
  def.vjp = Vjp<[](Gradient& g) {
    return ChoiceVjp(g, g.Op("less", {g.x(1), g.x(0)}));
  }>;
  return With(def, {{"max(f32[4,6], f32[4,6])"}});
}

OpDef Min() {
  OpDef def = Binary<[](auto a, auto b) { return Minimum(a, b); }>(
      "min", "the smaller of a and b, NaN where either is");
  def.vjp = Vjp<[](Gradient& g) {
    return ChoiceVjp(g, g.Op("less", {g.x(0), g.x(1)}));
  }>;
  return With(def, {{"min(f32[4,6], f32[4,6])"}});
}

// a - b q, and the quotient q does not move.
Gradients ModVjp(Gradient& g) {
  return {g.dy(), g.Mul(g.dy(), g.Div(g.Sub(g.y(), g.x(0)), g.x(1)))};
}

OpDef Mod() {
  OpDef def = Binary<[](auto a, auto b) { return Remainder<false>(a, b); }>(
      "mod", "a - b floor(a / b); of integers 0 for b = 0");
  def.attrs = {{"truncated", AttrKind::kBool,
                "the quotient toward zero instead, as fmod of C", false}};
  def.reference = [](const RefCall& call) {
    constexpr auto kTruncated = [](auto a, auto b) {
      return Remainder<true>(a, b);
    };
    constexpr auto kFloored = [](auto a, auto b) {
      return Remainder<false>(a, b);
    };
    return call.attrs.Bool("truncated") ? BinaryReference<kTruncated>(call)
                                        : BinaryReference<kFloored>(call);
  };
  return With(WithVjp<ModVjp>(def),
              {{"mod(f32[4,6], f32[6])", 1, 4},
               {"mod(f32[4,6], f32[4,6]) {truncated=true}", 1, 4},
               {"mod(i64[4,6], i64[4,6])"}});
}

std::vector<OpDef> Arithmetic() {
  OpDef div = Binary<[](auto a, auto b) { return Divide(a, b); }>(
      "div", "a / b; integers truncate, and give 0 for b = 0");
  OpDef pow = Binary<[](auto a, auto b) { return Power(a, b); }>(
      "pow", "a to the power of b; integers wrap around");
  return {Add(),
          Sub(),
          Mul(),
          With(WithVjp<DivVjp>(div),
               {{"div(f32[4,6], f32[4,6])", 1, 4}, {"div(i64[4,6], i64[6])"}}),
          With(WithVjp<PowVjp>(pow),
               {{"pow(f32[4,6], f32[1])", 1, 3}, {"pow(i64[4,6], i64[6])"}}),
          Mod(),
          Max(),
          Min()};
}

std::vector<OpDef> Logic() {
  auto compare = [](OpDef def) {
    return WithInfer(std::move(def), InferCompare);
  };
  auto logic = [](OpDef def) { return WithInfer(std::move(def), InferLogic); };
  return {
      With(compare(Binary<[](auto a, auto b) { return a == b; }>("equal",
                                                                 "a == b")),
           {{"equal(i64[4,6], i64[6])"}}),
      With(compare(
               Binary<[](auto a, auto b) { return a < b; }>("less", "a < b")),
           {{"less(f32[4,6], f32[4,6])"}}),
      With(compare(Binary<[](auto a, auto b) { return a <= b; }>("less_equal",
                                                                 "a <= b")),
           {{"less_equal(i64[4,1], i64[6])"}}),
      With(logic(
               Binary<[](auto a, auto b) { return a && b; }>("and", "a and b")),
           {{"and(bool[4,6], bool[4,6])", 0, 1}}),
      With(logic(Binary<[](auto a, auto b) { return a || b; }>("or", "a or b")),
           {{"or(bool[4,6], bool[4,6])", 0, 1}}),
      With(logic(Unary<[](auto a) { return !a; }>("not", "not x")),
           {{"not(bool[4,6])", 0, 1}}),
      With(WithInfer(
               Unary<[](auto a) { return std::isnan(static_cast<double>(a)); }>(
                   "is_nan", "whether x is not a number"),
               InferCompare),
           {{"is_nan(f32[4,6])"}}),
      With(WithInfer(
               Unary<[](auto a) { return std::isinf(static_cast<double>(a)); }>(
                   "is_inf", "whether x is infinite"),
               InferCompare),
           {{"is_inf(f32[4,6])"}}),
  };
}

}  // namespace

std::vector<OpDef> ElementwiseOps() {
  std::vector<OpDef> defs;
  for (auto group : {Arithmetic, Logic}) {
    for (OpDef& def : group()) defs.push_back(std::move(def));
  }
  defs.push_back({.name = "cast",
                  .summary = "x in another element type; floats round to "
                             "nearest even, and to integers toward zero",
                  .operands = {{"x"}},
                  .attrs = {{"to", AttrKind::kDType, "element type"}},
                  .infer = InferCast,
                  .axes = ElementwiseAxes<Linearity::kNone>,
                  .vjp = Vjp<CastVjp>,
                  .reference = CastReference,
                  .samples = {{"cast(f32[4,6]) {to=bf16}"},
                              {"cast(i64[4,6]) {to=f32}"},
                              {"cast(f32[4,6]) {to=f64}"},
                              {"cast(f32[4,6]) {to=bool}"}},
                  .in_place = true,
                  .fusable = Fusable::kElement});
  defs.push_back({.name = "select",
                  .summary = "yes where condition holds, else no",
                  .operands = {{"condition"}, {"yes"}, {"no"}},
                  .infer = InferSelect,
                  .axes = ElementwiseAxes<Linearity::kNone>,
                  .vjp = Vjp<SelectVjp>,
                  .reference = SelectReference,
                  .samples = {{"select(bool[4,6], f32[4,6], f32[1])", 0, 1}},
                  .in_place = true,
                  .fusable = Fusable::kElement});
  return defs;
}

}  // namespace asyra::ops
