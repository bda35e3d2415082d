// Templates for definitions of ops that work element by element: one element
// in, one out. Operands broadcast as in NumPy. Floats are computed in double
// and rounded once; integers are exact.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"

namespace asyra::ops {

template <Linearity linearity>
absl::StatusOr<AxisRule> ElementwiseAxes(const OpCall& call) {
  std::string spec = "...";
  for (size_t i = 1; i < call.operands.size(); ++i) spec += ", ...";
  return ParseAxisRule(spec + " -> ...", call.operands, call.results,
                       linearity);
}

// One element type, shapes broadcast.
absl::StatusOr<std::vector<Type>> InferArithmetic(const OpCall& call);
// The same of floats only.
absl::StatusOr<std::vector<Type>> InferFloat(const OpCall& call);

template <auto F>
absl::Status UnaryReference(const RefCall& call) {
  const Tensor& in = call.operands[0];
  Tensor& out = call.results[0];
  if (IsFloat(in.dtype())) {
    std::vector<double> values = in.ToDoubles();
    for (double& value : values) value = static_cast<double>(F(value));
    out.SetAll(values);
  } else {
    for (int64_t i = 0; i < in.num_elements(); ++i) {
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
  auto a_index = BroadcastIndex(a.shape(), out.shape());
  auto b_index = BroadcastIndex(b.shape(), out.shape());
  int64_t n = out.num_elements();
  if (IsFloat(a.dtype())) {
    std::vector<double> x = a.ToDoubles(), y = b.ToDoubles(), z(n);
    for (int64_t i = 0; i < n; ++i) {
      z[i] = static_cast<double>(F(x[a_index(i)], y[b_index(i)]));
    }
    out.SetAll(z);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      out.SetInt(i, static_cast<int64_t>(
                        F(a.GetInt(a_index(i)), b.GetInt(b_index(i)))));
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
  def.in_place = true;
  def.fusable = Fusable::kElement;
  return def;
}

template <auto F, Linearity linearity = Linearity::kNone>
OpDef Binary(std::string_view name, std::string_view summary) {
  OpDef def{.name = name, .summary = summary, .operands = {{"a"}, {"b"}}};
  def.infer = InferArithmetic;
  def.axes = ElementwiseAxes<linearity>;
  def.reference = BinaryReference<F>;
  def.in_place = true;
  def.fusable = Fusable::kElement;
  return def;
}

inline OpDef With(OpDef def, std::vector<Sample> samples) {
  def.samples = std::move(samples);
  return def;
}

inline OpDef WithInfer(
    OpDef def, absl::StatusOr<std::vector<Type>> (*infer)(const OpCall&)) {
  def.infer = infer;
  return def;
}

// An op whose gradient is dy times F(g).
template <auto F>
OpDef WithDerivative(OpDef def) {
  def.vjp = Vjp<[](Gradient& g) { return Gradients{g.Mul(g.dy(), F(g))}; }>;
  return def;
}

// A function of one float and its derivative, whose sample is filled with
// values from `low` to `high`.
template <auto F, auto Derivative>
OpDef Function(std::string_view name, std::string_view summary,
               std::string_view sample, int low = -3, int high = 3) {
  return With(WithDerivative<Derivative>(Unary<F>(name, summary)),
              {{sample, low, high}});
}

// 1 - y and 1 - y^2: derivatives of sigmoid and tanh by their results.
inline ValueId OneMinus(Gradient& g, ValueId y) {
  return g.Sub(g.Scalar(1, y), y);
}
inline ValueId OneMinusSquare(Gradient& g, ValueId y) {
  return OneMinus(g, g.Mul(y, y));
}

// F gives the gradients of all operands.
template <auto F>
OpDef WithVjp(OpDef def) {
  def.vjp = Vjp<F>;
  return def;
}

}  // namespace asyra::ops
