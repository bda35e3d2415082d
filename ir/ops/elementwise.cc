// One element in, one element out. Operands broadcast as in NumPy. Floats are
// computed in double and rounded once; integers are exact.
#include <cmath>

#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

absl::StatusOr<AxisRule> Elementwise(const OpCall& call, Linearity linearity) {
  std::string spec = "...";
  for (size_t i = 1; i < call.operands.size(); ++i) spec += ", ...";
  return ParseAxisRule(spec + " -> ...", call.operands, call.results,
                       linearity);
}

template <Linearity linearity>
absl::StatusOr<AxisRule> ElementwiseAxes(const OpCall& call) {
  return Elementwise(call, linearity);
}

absl::StatusOr<std::vector<Type>> InferArithmetic(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireSameDType(call));
  ASYRA_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(call.operands));
  return std::vector<Type>{Type(call.operands[0].dtype, shape)};
}

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

absl::StatusOr<std::vector<Type>> InferFloat(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  return SameAsFirst(call);
}

template <auto F>
absl::Status UnaryReference(const RefCall& call) {
  const Tensor& in = call.operands[0];
  Tensor& out = call.results[0];
  for (int64_t i = 0; i < in.num_elements(); ++i) {
    if (IsFloat(in.dtype())) {
      out.Set(i, static_cast<double>(F(in.Get(i))));
    } else {
      out.SetInt(i, static_cast<int64_t>(F(in.GetInt(i))));
    }
  }
  return absl::OkStatus();
}

template <auto F>
absl::Status BinaryReference(const RefCall& call) {
  const Tensor& a = call.operands[0];
  const Tensor& b = call.operands[1];
  Tensor& out = call.results[0];
  BroadcastIndex a_index(a.shape(), out.shape());
  BroadcastIndex b_index(b.shape(), out.shape());
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    if (IsFloat(a.dtype())) {
      out.Set(i, static_cast<double>(F(a.Get(a_index(i)), b.Get(b_index(i)))));
    } else {
      out.SetInt(i, static_cast<int64_t>(
                        F(a.GetInt(a_index(i)), b.GetInt(b_index(i)))));
    }
  }
  return absl::OkStatus();
}

absl::Status CastReference(const RefCall& call) {
  const Tensor& in = call.operands[0];
  Tensor& out = call.results[0];
  bool exact_ints = !IsFloat(in.dtype()) && !IsFloat(out.dtype());
  for (int64_t i = 0; i < in.num_elements(); ++i) {
    if (exact_ints) {
      int64_t value = in.GetInt(i);
      out.SetInt(i, out.dtype() == DType::kBool ? value != 0 : value);
    } else {
      out.Set(i, in.Get(i));
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
  BroadcastIndex condition(call.operands[0].shape(), out.shape());
  BroadcastIndex yes(call.operands[1].shape(), out.shape());
  BroadcastIndex no(call.operands[2].shape(), out.shape());
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

template <auto F>
OpDef Unary(std::string_view name, std::string_view summary) {
  OpDef def{.name = name, .summary = summary, .operands = {{"x"}}};
  def.infer = InferFloat;
  def.axes = ElementwiseAxes<Linearity::kNone>;
  def.reference = UnaryReference<F>;
  return def;
}

template <auto F, Linearity linearity = Linearity::kNone>
OpDef Binary(std::string_view name, std::string_view summary) {
  OpDef def{.name = name, .summary = summary, .operands = {{"a"}, {"b"}}};
  def.infer = InferArithmetic;
  def.axes = ElementwiseAxes<linearity>;
  def.reference = BinaryReference<F>;
  return def;
}

OpDef With(OpDef def, std::vector<Sample> samples) {
  def.samples = std::move(samples);
  return def;
}

OpDef WithInfer(OpDef def,
                absl::StatusOr<std::vector<Type>> (*infer)(const OpCall&)) {
  def.infer = infer;
  return def;
}

template <typename T>
T Divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0 || (b == -1 && a == INT64_MIN)) return 0;
  }
  return a / b;
}

// Wraps around instead of overflowing.
template <typename T>
auto Wrap(T a) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(a);
  } else {
    return a;
  }
}

std::vector<OpDef> Arithmetic() {
  return {
      With(Binary<[](auto a, auto b) { return Wrap(a) + Wrap(b); },
                  Linearity::kJoint>("add", "a + b"),
           {{"add(f32[4,6], f32[4,6])"},
            {"add(f32[4,6], f32[6])"},
            {"add(i64[4,1], i64[1,6])"}}),
      With(Binary<[](auto a, auto b) { return Wrap(a) - Wrap(b); },
                  Linearity::kJoint>("sub", "a - b"),
           {{"sub(f32[4,6], f32[4,6])"}}),
      With(Binary<[](auto a, auto b) { return Wrap(a) * Wrap(b); },
                  Linearity::kEach>("mul", "a * b"),
           {{"mul(f32[4,6], f32[4,6])"}, {"mul(f32[2,4,6], f32[4,1])"}}),
      With(Binary<[](auto a, auto b) { return Divide(a, b); }>(
               "div", "a / b; integers truncate, and give 0 for b = 0"),
           {{"div(f32[4,6], f32[4,6])", 1, 4}}),
      With(Binary<[](auto a, auto b) {
             return static_cast<decltype(a)>(std::pow(a, b));
           }>("pow", "a to the power of b"),
           {{"pow(f32[4,6], f32[1])", 1, 3}}),
      With(Binary<[](auto a, auto b) { return std::max(a, b); }>(
               "max", "the larger of a and b"),
           {{"max(f32[4,6], f32[4,6])"}}),
      With(Binary<[](auto a, auto b) { return std::min(a, b); }>(
               "min", "the smaller of a and b"),
           {{"min(f32[4,6], f32[4,6])"}}),
  };
}

std::vector<OpDef> Logic() {
  auto compare = [](OpDef def) { return WithInfer(def, InferCompare); };
  auto logic = [](OpDef def) { return WithInfer(def, InferLogic); };
  return {
      With(compare(Binary<[](auto a, auto b) { return a == b; }>("equal",
                                                                 "a == b")),
           {{"equal(i64[4,6], i64[6])"}}),
      With(compare(Binary<[](auto a, auto b) { return a < b; }>("less",
                                                                "a < b")),
           {{"less(f32[4,6], f32[4,6])"}}),
      With(compare(Binary<[](auto a, auto b) { return a <= b; }>("less_equal",
                                                                 "a <= b")),
           {{"less_equal(i64[4,1], i64[6])"}}),
      With(logic(Binary<[](auto a, auto b) { return a && b; }>("and",
                                                               "a and b")),
           {{"and(bool[4,6], bool[4,6])", 0, 1}}),
      With(logic(Binary<[](auto a, auto b) { return a || b; }>("or",
                                                               "a or b")),
           {{"or(bool[4,6], bool[4,6])", 0, 1}}),
      With(logic(Unary<[](auto a) { return !a; }>("not", "not x")),
           {{"not(bool[4,6])", 0, 1}}),
      With(WithInfer(Unary<[](auto a) {
                       return std::isnan(static_cast<double>(a));
                     }>("is_nan", "whether x is not a number"),
                     InferCompare),
           {{"is_nan(f32[4,6])"}}),
  };
}

std::vector<OpDef> Functions() {
  auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  OpDef negate = WithInfer(
      Unary<[](auto x) { return -x; }>("neg", "-x"), SameAsFirst);
  negate.axes = ElementwiseAxes<Linearity::kJoint>;
  return {
      With(negate, {{"neg(f32[4,6])"}, {"neg(i64[4])"}}),
      With(Unary<[](double x) { return std::exp(x); }>("exp", "e to the x"),
           {{"exp(f32[4,6])"}}),
      With(Unary<[](double x) { return std::log(x); }>("log",
                                                       "natural logarithm"),
           {{"log(f32[4,6])", 1, 5}}),
      With(Unary<[](double x) { return std::sqrt(x); }>("sqrt", "square root"),
           {{"sqrt(f32[4,6])", 1, 5}}),
      With(Unary<[](double x) { return 1 / std::sqrt(x); }>(
               "rsqrt", "1 / square root"),
           {{"rsqrt(f32[4,6])", 1, 5}}),
      With(Unary<[](double x) { return 1 / x; }>("reciprocal", "1 / x"),
           {{"reciprocal(f32[4,6])", 1, 5}}),
      With(Unary<[](double x) { return std::sin(x); }>("sin", "sine"),
           {{"sin(f32[4,6])"}}),
      With(Unary<[](double x) { return std::cos(x); }>("cos", "cosine"),
           {{"cos(f32[4,6])"}}),
      With(Unary<[](double x) { return std::tanh(x); }>("tanh",
                                                        "hyperbolic tangent"),
           {{"tanh(f32[4,6])"}}),
      With(Unary<[](double x) { return std::erf(x); }>("erf",
                                                       "error function"),
           {{"erf(f32[4,6])"}}),
      With(Unary<sigmoid>("sigmoid", "1 / (1 + e^-x)"),
           {{"sigmoid(f32[4,6])"}}),
      With(Unary<[](double x) { return x / (1 + std::exp(-x)); }>(
               "silu", "x * sigmoid(x)"),
           {{"silu(f32[4,6])"}}),
      With(Unary<[](double x) { return x / 2 * (1 + std::erf(x * M_SQRT1_2)); }>(
               "gelu", "x * Phi(x), exact"),
           {{"gelu(f32[4,6])"}}),
      With(Unary<[](double x) {
             double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
             return x / 2 * (1 + std::tanh(inner));
           }>("gelu_tanh", "x * Phi(x), by the tanh formula"),
           {{"gelu_tanh(f32[4,6])"}}),
      With(Unary<[](double x) { return std::max(x, 0.0); }>("relu",
                                                            "max(x, 0)"),
           {{"relu(f32[4,6])"}}),
      With(Binary<[](auto gate, auto up) {
             return gate / (1 + std::exp(-gate)) * up;
           }>("swiglu", "silu(gate) * up"),
           {{"swiglu(f32[4,6], f32[4,6])"}}),
  };
}

}  // namespace

std::vector<OpDef> ElementwiseOps() {
  std::vector<OpDef> defs;
  for (auto group : {Arithmetic, Logic, Functions}) {
    for (OpDef& def : group()) defs.push_back(std::move(def));
  }
  defs.push_back({.name = "cast",
                  .summary = "x in another element type; floats round to "
                             "nearest even, and to integers toward zero",
                  .operands = {{"x"}},
                  .attrs = {{"to", AttrKind::kDType, "element type"}},
                  .infer = InferCast,
                  .axes = ElementwiseAxes<Linearity::kNone>,
                  .reference = CastReference,
                  .samples = {{"cast(f32[4,6]) {to=bf16}"},
                              {"cast(i64[4,6]) {to=f32}"},
                              {"cast(f32[4,6]) {to=bool}"}}});
  defs.push_back({.name = "select",
                  .summary = "yes where condition holds, else no",
                  .operands = {{"condition"}, {"yes"}, {"no"}},
                  .infer = InferSelect,
                  .axes = ElementwiseAxes<Linearity::kNone>,
                  .reference = SelectReference,
                  .samples = {{"select(bool[4,6], f32[4,6], f32[1])", 0, 1}}});
  return defs;
}

}  // namespace asyra::ops
