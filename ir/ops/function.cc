// Functions of one float, and the gated unit of two.
#include <cmath>

#include "ir/ops/elementwise.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

constexpr double kTanhCubic = 0.044715;  // of the tanh formula of gelu

double Gelu(double x) { return x / 2 * (1 + std::erf(x * M_SQRT1_2)); }

double GeluTanh(double x) {
  double inner = std::sqrt(2 / M_PI) * (x + kTanhCubic * x * x * x);
  return x / 2 * (1 + std::tanh(inner));
}

// An op whose gradient is dy times F(g).
template <auto F>
OpDef WithDerivative(OpDef def) {
  def.vjp = Vjp<[](Gradient& g) { return Gradients{g.Mul(g.dy(), F(g))}; }>;
  return def;
}

// 1 - y^2, 1 - y: the derivatives of tanh and sigmoid by their results.
ValueId OneMinusSquare(Gradient& g, ValueId y) {
  return g.Sub(g.Scalar(1, y), g.Mul(y, y));
}
ValueId OneMinus(Gradient& g, ValueId y) { return g.Sub(g.Scalar(1, y), y); }

// s + x s (1 - s), s = sigmoid(x).
ValueId SiluDerivative(Gradient& g) {
  ValueId s = g.Op("sigmoid", {g.x()});
  return g.Add(s, g.Mul(g.x(), g.Mul(s, OneMinus(g, s))));
}

// Phi(x) + x phi(x).
ValueId GeluDerivative(Gradient& g) {
  ValueId erf = g.Op("erf", {g.Scale(M_SQRT1_2, g.x())});
  ValueId cdf = g.Scale(0.5, g.Add(erf, g.Scalar(1, erf)));
  ValueId density = g.Op("exp", {g.Scale(-0.5, g.Mul(g.x(), g.x()))});
  return g.Add(cdf, g.Scale(1 / std::sqrt(2 * M_PI), g.Mul(g.x(), density)));
}

// With u = sqrt(2/pi) (x + c x^3): (1 + tanh u)/2 + x/2 (1 - tanh^2 u) u'.
ValueId GeluTanhDerivative(Gradient& g) {
  const double root = std::sqrt(2 / M_PI);
  ValueId square = g.Mul(g.x(), g.x());
  ValueId one = g.Scalar(1, g.x());
  ValueId u =
      g.Scale(root, g.Mul(g.x(), g.Add(g.Scale(kTanhCubic, square), one)));
  ValueId du = g.Scale(root, g.Add(g.Scale(3 * kTanhCubic, square), one));
  ValueId tanh = g.Op("tanh", {u});
  ValueId slope = g.Mul(g.Mul(g.x(), OneMinusSquare(g, tanh)), du);
  return g.Scale(0.5, g.Add(g.Add(tanh, one), slope));
}

Gradients ReluVjp(Gradient& g) {
  ValueId zero = g.Scalar(0, g.x());
  return {g.Op("select", {g.Op("less", {zero, g.x()}), g.dy(), zero})};
}

Gradients SwigluVjp(Gradient& g) {
  ValueId dsilu = g.Mul(g.dy(), g.x(1));
  return {g.Mul(dsilu, SiluDerivative(g)),
          g.Mul(g.dy(), g.Op("silu", {g.x(0)}))};
}

OpDef Negate() {
  OpDef def = Unary<[](auto x) {
    if constexpr (std::is_integral_v<decltype(x)>) {
      return uint64_t{0} - static_cast<uint64_t>(x);  // wraps around
    } else {
      return -x;
    }
  }>("neg", "-x");
  def.infer = SameAsFirst;
  def.axes = ElementwiseAxes<Linearity::kJoint>;
  def.vjp = Vjp<[](Gradient& g) { return Gradients{g.Neg(g.dy())}; }>;
  return With(def, {{"neg(f32[4,6])"}, {"neg(i64[4])"}});
}

std::vector<OpDef> Roots() {
  return {
      With(WithDerivative<[](Gradient& g) {
             return g.Op("reciprocal", {g.x()});
           }>(Unary<[](double x) { return std::log(x); }>("log",
                                                          "natural logarithm")),
           {{"log(f32[4,6])", 1, 5}}),
      With(WithDerivative<[](Gradient& g) {
             return g.Scale(0.5, g.Op("reciprocal", {g.y()}));
           }>(Unary<[](double x) { return std::sqrt(x); }>("sqrt",
                                                           "square root")),
           {{"sqrt(f32[4,6])", 1, 5}}),
      With(WithDerivative<[](Gradient& g) {
             return g.Scale(-0.5, g.Mul(g.y(), g.Mul(g.y(), g.y())));
           }>(
               Unary<[](double x) { return 1 / std::sqrt(x); }>(
                   "rsqrt", "1 / square root")),
           {{"rsqrt(f32[4,6])", 1, 5}}),
      With(WithDerivative<[](Gradient& g) {
             return g.Neg(g.Mul(g.y(), g.y()));
           }>(Unary<[](double x) { return 1 / x; }>("reciprocal", "1 / x")),
           {{"reciprocal(f32[4,6])", 1, 5}}),
  };
}

std::vector<OpDef> Transcendental() {
  return {
      With(
          WithDerivative<[](Gradient& g) { return g.y(); }>(
              Unary<[](double x) { return std::exp(x); }>("exp", "e to the x")),
          {{"exp(f32[4,6])"}}),
      With(WithDerivative<[](Gradient& g) { return g.Op("cos", {g.x()}); }>(
               Unary<[](double x) { return std::sin(x); }>("sin", "sine")),
           {{"sin(f32[4,6])"}}),
      With(WithDerivative<[](Gradient& g) {
             return g.Neg(g.Op("sin", {g.x()}));
           }>(Unary<[](double x) { return std::cos(x); }>("cos", "cosine")),
           {{"cos(f32[4,6])"}}),
      With(WithDerivative<[](Gradient& g) { return OneMinusSquare(g, g.y()); }>(
               Unary<[](double x) { return std::tanh(x); }>(
                   "tanh", "hyperbolic tangent")),
           {{"tanh(f32[4,6])"}}),
      With(WithDerivative<[](Gradient& g) {
             ValueId density = g.Op("exp", {g.Neg(g.Mul(g.x(), g.x()))});
             return g.Scale(2 / std::sqrt(M_PI), density);
           }>(Unary<[](double x) { return std::erf(x); }>("erf",
                                                          "error function")),
           {{"erf(f32[4,6])"}}),
  };
}

std::vector<OpDef> Activations() {
  OpDef relu =
      Unary<[](double x) { return std::max(x, 0.0); }>("relu", "max(x, 0)");
  OpDef swiglu = Binary<[](double gate, double up) {
    return gate / (1 + std::exp(-gate)) * up;
  }>("swiglu", "silu(gate) * up");
  swiglu.operands = {{"gate"}, {"up"}};
  swiglu.infer = InferFloat;
  return {
      With(WithDerivative<[](Gradient& g) {
             return g.Mul(g.y(), OneMinus(g, g.y()));
           }>(
               Unary<[](double x) { return 1 / (1 + std::exp(-x)); }>(
                   "sigmoid", "1 / (1 + e^-x)")),
           {{"sigmoid(f32[4,6])"}}),
      With(WithDerivative<SiluDerivative>(
               Unary<[](double x) { return x / (1 + std::exp(-x)); }>(
                   "silu", "x * sigmoid(x)")),
           {{"silu(f32[4,6])"}}),
      With(WithDerivative<GeluDerivative>(
               Unary<Gelu>("gelu", "x * Phi(x), exact")),
           {{"gelu(f32[4,6])"}}),
      With(WithDerivative<GeluTanhDerivative>(
               Unary<GeluTanh>("gelu_tanh", "x * Phi(x), by the tanh formula")),
           {{"gelu_tanh(f32[4,6])"}}),
      With(WithVjp<ReluVjp>(relu), {{"relu(f32[4,6])"}}),
      With(WithVjp<SwigluVjp>(swiglu),
           {{"swiglu(f32[4,6], f32[4,6])"}, {"swiglu(bf16[4,6], bf16[4,6])"}}),
  };
}

}  // namespace

std::vector<OpDef> FunctionOps() {
  std::vector<OpDef> defs = {Negate()};
  for (auto group : {Transcendental, Roots, Activations}) {
    for (OpDef& def : group()) defs.push_back(std::move(def));
  }
  return defs;
}

}  // namespace asyra::ops
