// Activations: functions of one float, and gated units of two.
#include <cmath>

#include "ir/ops/elementwise.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

constexpr double kTanhCubic = 0.044715;  // of the tanh formula of gelu
constexpr double kQuick = 1.702;         // of its approximation by sigmoid

double Gelu(double x) { return x / 2 * (1 + std::erf(x * M_SQRT1_2)); }

double GeluTanh(double x) {
  double inner = std::sqrt(2 / M_PI) * (x + kTanhCubic * x * x * x);
  return x / 2 * (1 + std::tanh(inner));
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Silu(double x) { return x / (1 + std::exp(-x)); }
double QuickGelu(double x) { return x * Sigmoid(kQuick * x); }
double Relu(double x) { return std::max(x, 0.0); }
double Softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

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

// `yes` where x > 0, else `no`.
ValueId WherePositive(Gradient& g, ValueId yes, ValueId no) {
  return g.Op("select", {g.Op("less", {g.Scalar(0, g.x()), g.x()}), yes, no});
}

ValueId ReluDerivative(Gradient& g) {
  return WherePositive(g, g.Scalar(1, g.x()), g.Scalar(0, g.x()));
}

// s + c x s (1 - s), s = sigmoid(c x).
ValueId QuickGeluDerivative(Gradient& g) {
  ValueId scaled = g.Scale(kQuick, g.x());
  ValueId s = g.Op("sigmoid", {scaled});
  return g.Add(s, g.Mul(scaled, g.Mul(s, OneMinus(g, s))));
}

// t + x (1 - t^2) sigmoid(x), t = tanh(softplus(x)).
ValueId MishDerivative(Gradient& g) {
  ValueId t = g.Op("tanh", {g.Op("softplus", {g.x()})});
  ValueId slope = g.Mul(OneMinusSquare(g, t), g.Op("sigmoid", {g.x()}));
  return g.Add(t, g.Mul(g.x(), slope));
}

// x/3 + 1/2 between -3 and 3, where it is 0 and 1.
ValueId HardSwishDerivative(Gradient& g) {
  ValueId line = g.Add(g.Scale(1.0 / 3, g.x()), g.Scalar(0.5, g.x()));
  ValueId right = g.Op("select", {g.Op("less", {g.x(), g.Scalar(3, g.x())}),
                                  line, g.Scalar(1, g.x())});
  return g.Op("select", {g.Op("less", {g.Scalar(-3, g.x()), g.x()}), right,
                         g.Scalar(0, g.x())});
}

std::vector<OpDef> Activations() {
  return {
      Function<Sigmoid,
               [](Gradient& g) { return g.Mul(g.y(), OneMinus(g, g.y())); }>(
          "sigmoid", "1 / (1 + e^-x)", "sigmoid(f32[4,6])"),
      Function<Silu, SiluDerivative>("silu", "x * sigmoid(x)",
                                     "silu(f32[4,6])"),
      Function<QuickGelu, QuickGeluDerivative>(
          "quick_gelu", "x * sigmoid(1.702 x)", "quick_gelu(f32[4,6])"),
      Function<Gelu, GeluDerivative>("gelu", "x * Phi(x), exact",
                                     "gelu(f32[4,6])"),
      Function<GeluTanh, GeluTanhDerivative>("gelu_tanh",
                                             "x * Phi(x), by the tanh formula",
                                             "gelu_tanh(f32[4,6])"),
      Function<Relu, ReluDerivative>("relu", "max(x, 0)", "relu(f32[4,6])"),
      Function<Softplus, [](Gradient& g) { return g.Op("sigmoid", {g.x()}); }>(
          "softplus", "log(1 + e^x)", "softplus(f32[4,6])"),
      Function<[](double x) { return x * std::tanh(Softplus(x)); },
               MishDerivative>("mish", "x * tanh(softplus(x))",
                               "mish(f32[4,6])"),
      Function<[](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); },
               HardSwishDerivative>("hard_swish", "x * clamp(x/6 + 1/2, 0, 1)",
                                    "hard_swish(f32[4,6])", -5, 5),
  };
}

// An activation whose shape attribute `attr` says. F(x, attribute).
template <auto F, auto Derivative>
OpDef Shaped(std::string_view name, std::string_view summary, AttrDef attr,
             std::string_view sample) {
  OpDef def{.name = name,
            .summary = summary,
            .operands = {{"x"}},
            .attrs = {std::move(attr)},
            .infer = InferFloat,
            .axes = ElementwiseAxes<Linearity::kNone>,
            .in_place = true,
            .fusable = Fusable::kElement};
  def.reference = [](const RefCall& call) {
    double number = call.attrs.Float(call.def.attrs[0].name);
    std::vector<double> values = call.operands[0].ToDoubles();
    for (double& value : values) value = F(value, number);
    call.results[0].SetAll(values);
    return absl::OkStatus();
  };
  return With(WithDerivative<Derivative>(std::move(def)), {{sample}});
}

double LeakyRelu(double x, double slope) { return x > 0 ? x : slope * x; }
double Elu(double x, double alpha) { return x > 0 ? x : alpha * std::expm1(x); }
double Softcap(double x, double cap) { return cap * std::tanh(x / cap); }

ValueId LeakyReluDerivative(Gradient& g) {
  return WherePositive(g, g.Scalar(1, g.x()),
                       g.Scalar(g.attrs().Float("slope"), g.x()));
}

ValueId EluDerivative(Gradient& g) {
  ValueId alpha = g.Scalar(g.attrs().Float("alpha"), g.x());
  return WherePositive(g, g.Scalar(1, g.x()), g.Add(g.y(), alpha));
}

ValueId SoftcapDerivative(Gradient& g) {
  return OneMinusSquare(g, g.Scale(1 / g.attrs().Float("cap"), g.y()));
}

std::vector<OpDef> ShapedActivations() {
  return {
      Shaped<LeakyRelu, LeakyReluDerivative>(
          "leaky_relu", "x where x > 0, else slope * x",
          {"slope", AttrKind::kFloat, "of negative x"},
          "leaky_relu(f32[4,6]) {slope=0.125}"),
      Shaped<Elu, EluDerivative>(
          "elu", "x where x > 0, else alpha (e^x - 1)",
          {"alpha", AttrKind::kFloat, "of negative x", 1.0},
          "elu(f32[4,6]) {alpha=1.5}"),
      Shaped<Softcap, SoftcapDerivative>(
          "softcap", "cap * tanh(x / cap)",
          {"cap", AttrKind::kFloat, "largest result"},
          "softcap(f32[4,6]) {cap=2.0}"),
  };
}

// Activation(gate) * up.
template <auto F>
OpDef Gated(std::string_view name, std::string_view summary,
            std::vector<Sample> samples) {
  OpDef def = Binary<[](double gate, double up) { return F(gate) * up; }>(
      name, summary);
  def.operands = {{"gate"}, {"up"}};
  def.infer = InferFloat;
  def.samples = std::move(samples);
  return def;
}

// The op of the activation is named by `activation`.
template <auto Derivative>
Gradients GatedVjp(Gradient& g, std::string_view activation) {
  return {g.Mul(g.Mul(g.dy(), g.x(1)), Derivative(g)),
          g.Mul(g.dy(), g.Op(activation, {g.x(0)}))};
}

std::vector<OpDef> GatedActivations() {
  return {
      WithVjp<[](Gradient& g) { return GatedVjp<SiluDerivative>(g, "silu"); }>(
          Gated<Silu>("swiglu", "silu(gate) * up",
                      {{"swiglu(f32[4,6], f32[4,6])"},
                       {"swiglu(bf16[4,6], bf16[4,6])"}})),
      WithVjp<[](Gradient& g) { return GatedVjp<GeluDerivative>(g, "gelu"); }>(
          Gated<Gelu>("geglu", "gelu(gate) * up",
                      {{"geglu(f32[4,6], f32[4,6])"}})),
      WithVjp<[](Gradient& g) {
        return GatedVjp<GeluTanhDerivative>(g, "gelu_tanh");
      }>(Gated<GeluTanh>("geglu_tanh", "gelu_tanh(gate) * up",
                         {{"geglu_tanh(f32[4,6], f32[4,6])"}})),
      WithVjp<[](Gradient& g) { return GatedVjp<ReluDerivative>(g, "relu"); }>(
          Gated<Relu>("reglu", "relu(gate) * up",
                      {{"reglu(f32[4,6], f32[4,6])"}})),
  };
}

}  // namespace

std::vector<OpDef> ActivationOps() {
  std::vector<OpDef> defs;
  for (auto group : {Activations, ShapedActivations, GatedActivations}) {
    for (OpDef& def : group()) defs.push_back(std::move(def));
  }
  return defs;
}

}  // namespace asyra::ops
