// Functions of one number.
#include <cmath>

#include "ir/ops/elementwise.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

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

std::vector<OpDef> Exponentials() {
  return {
      Function<[](double x) { return std::expm1(x); },
               [](Gradient& g) { return g.Add(g.y(), g.Scalar(1, g.y())); }>(
          "expm1", "e to the x, less 1", "expm1(f32[4,6])"),
      Function<[](double x) { return std::log1p(x); },
               [](Gradient& g) {
                 return g.Op("reciprocal", {g.Add(g.x(), g.Scalar(1, g.x()))});
               }>("log1p", "natural logarithm of 1 + x", "log1p(f32[4,6])", 0,
                  4),
  };
}

// 1 / sqrt(sign (1 - x^2)), 1 / sqrt(1 + x^2).
ValueId InverseRoot(Gradient& g, double sign, double offset) {
  ValueId square = g.Mul(g.x(), g.x());
  return g.Op("rsqrt",
              {g.Add(g.Scalar(offset, square), g.Scale(sign, square))});
}

std::vector<OpDef> Trigonometry() {
  return {
      Function<[](double x) { return std::tan(x); },
               [](Gradient& g) {
                 return g.Add(g.Scalar(1, g.y()), g.Mul(g.y(), g.y()));
               }>("tan", "tangent", "tan(f32[4,6])", -1, 1),
      Function<[](double x) { return std::asin(x); },
               [](Gradient& g) { return InverseRoot(g, -1, 1); }>(
          "asin", "inverse sine", "asin(f32[4,6])", 0, 0),
      Function<[](double x) { return std::acos(x); },
               [](Gradient& g) { return g.Neg(InverseRoot(g, -1, 1)); }>(
          "acos", "inverse cosine", "acos(f32[4,6])", 0, 0),
      Function<[](double x) { return std::atan(x); },
               [](Gradient& g) {
                 ValueId square = g.Mul(g.x(), g.x());
                 return g.Op("reciprocal",
                             {g.Add(square, g.Scalar(1, square))});
               }>("atan", "inverse tangent", "atan(f32[4,6])"),
  };
}

std::vector<OpDef> Hyperbolics() {
  return {
      Function<[](double x) { return std::sinh(x); },
               [](Gradient& g) { return g.Op("cosh", {g.x()}); }>(
          "sinh", "hyperbolic sine", "sinh(f32[4,6])"),
      Function<[](double x) { return std::cosh(x); },
               [](Gradient& g) { return g.Op("sinh", {g.x()}); }>(
          "cosh", "hyperbolic cosine", "cosh(f32[4,6])"),
      Function<[](double x) { return std::asinh(x); },
               [](Gradient& g) { return InverseRoot(g, 1, 1); }>(
          "asinh", "inverse hyperbolic sine", "asinh(f32[4,6])"),
      Function<[](double x) { return std::acosh(x); },
               [](Gradient& g) { return InverseRoot(g, 1, -1); }>(
          "acosh", "inverse hyperbolic cosine", "acosh(f32[4,6])", 2, 5),
      Function<[](double x) { return std::atanh(x); },
               [](Gradient& g) {
                 return g.Op("reciprocal", {OneMinusSquare(g, g.x())});
               }>("atanh", "inverse hyperbolic tangent", "atanh(f32[4,6])", 0,
                  0),
  };
}

template <typename T>
T Absolute(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(x < 0 ? uint64_t{0} - static_cast<uint64_t>(x)
                                : static_cast<uint64_t>(x));
  } else {
    return std::abs(x);
  }
}

// Flat between their steps.
Gradients NoSlope(Gradient& g) { return {g.Zeros(g.x())}; }

std::vector<OpDef> Steps() {
  OpDef abs = Unary<[](auto x) { return Absolute(x); }>(
      "abs", "x without its sign; integers wrap around");
  OpDef sign = Unary<[](auto x) {
    return std::isnan(static_cast<double>(x))
               ? x
               : static_cast<decltype(x)>((x > 0) - (x < 0));
  }>("sign", "-1, 0 or 1");
  auto step = [](OpDef def, std::string_view sample) {
    return With(WithVjp<NoSlope>(std::move(def)), {{sample}});
  };
  return {
      With(
          WithInfer(
              WithDerivative<[](Gradient& g) { return g.Op("sign", {g.x()}); }>(
                  abs),
              InferArithmetic),
          {{"abs(f32[4,6])"}, {"abs(i64[4,6])"}}),
      With(WithInfer(WithVjp<NoSlope>(sign), InferArithmetic),
           {{"sign(f32[4,6])"}, {"sign(i64[4,6])"}}),
      step(Unary<[](double x) { return std::floor(x); }>(
               "floor", "largest whole number that is not above x"),
           "floor(f32[4,6])"),
      step(Unary<[](double x) { return std::ceil(x); }>(
               "ceil", "smallest whole number that is not below x"),
           "ceil(f32[4,6])"),
      step(Unary<[](double x) { return std::nearbyint(x); }>(
               "round", "nearest whole number, the even one of two"),
           "round(f32[4,6])"),
  };
}

}  // namespace

std::vector<OpDef> FunctionOps() {
  std::vector<OpDef> defs = {Negate()};
  for (auto group : {Transcendental, Exponentials, Trigonometry, Hyperbolics,
                     Roots, Steps}) {
    for (OpDef& def : group()) defs.push_back(std::move(def));
  }
  return defs;
}

}  // namespace asyra::ops
