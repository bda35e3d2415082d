// Helpers for the vjps of op definitions: each is a few ops on the operands,
// the result and its gradient.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/builder.h"
#include "ir/op_def.h"

namespace asyra::ops {

// The gradient of one use of an op, under construction.
class Gradient {
 public:
  Gradient(Builder& builder, const VjpCall& call)
      : builder_(builder), call_(call) {}

  const AttrMap& attrs() const { return call_.attrs; }
  int num_operands() const { return static_cast<int>(call_.operands.size()); }
  ValueId x(int i = 0) const { return call_.operands[i]; }
  ValueId y(int i = 0) const { return call_.results[i]; }
  ValueId dy() const { return call_.gradients[0]; }
  // A copy: values move as ops are added.
  Type type(ValueId value) const { return builder_.type(value); }

  // An op of one result that fits its operands by construction.
  ValueId Op(std::string_view op, absl::Span<const ValueId> operands,
             AttrMap attrs = {});
  // One of any number of results.
  std::vector<ValueId> Ops(std::string_view op,
                           absl::Span<const ValueId> operands, AttrMap attrs);
  ValueId Add(ValueId a, ValueId b) { return Op("add", {a, b}); }
  ValueId Sub(ValueId a, ValueId b) { return Op("sub", {a, b}); }
  ValueId Mul(ValueId a, ValueId b) { return Op("mul", {a, b}); }
  ValueId Div(ValueId a, ValueId b) { return Op("div", {a, b}); }
  ValueId Neg(ValueId a) { return Op("neg", {a}); }
  // A constant of no dimensions, of the element type of `like`.
  ValueId Scalar(double value, ValueId like);
  ValueId Scale(double factor, ValueId a) { return Mul(Scalar(factor, a), a); }
  ValueId Zeros(ValueId like);
  // `value` in another element type; itself where it has that.
  ValueId Cast(ValueId value, DType to);
  // `value` summed to the shape of `operand`, which was broadcast to it. 16-bit
  // elements that were cast to f32 are summed as they are.
  ValueId SumTo(ValueId value, ValueId operand);
  ValueId Reshape(ValueId value, const Shape& shape);

 private:
  // Returns the 16-bit value that was cast to `value`, f32; else kNoValue.
  ValueId BeforeCast(ValueId value) const;

  Builder& builder_;
  const VjpCall& call_;
};

// An OpDef::vjp from a function of Gradient& that gives the gradient of every
// operand (kNoValue: none), before broadcasting is undone.
template <auto F>
absl::StatusOr<std::vector<ValueId>> Vjp(Builder& builder,
                                         const VjpCall& call) {
  if (call.gradients[0] == kNoValue) {
    return std::vector<ValueId>(call.operands.size(), kNoValue);
  }
  Gradient gradient(builder, call);
  std::vector<ValueId> results = F(gradient);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] == kNoValue) continue;
    results[i] = gradient.SumTo(results[i], call.operands[i]);
  }
  return results;
}

using Gradients = std::vector<ValueId>;

}  // namespace asyra::ops
