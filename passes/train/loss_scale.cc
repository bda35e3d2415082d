#include "passes/train/loss_scale.h"

#include <cmath>

#include "ir/support/status.h"
#include "ir/training_names.h"
#include "passes/train/differentiate.h"

namespace asyra {
namespace {

// Returns the value of which `value` is a sum with states.
ValueId WithoutStates(const Program& program, const DefUse& def_use,
                      ValueId value) {
  int def = def_use.def[value];
  if (def < 0 || program.ops[def].def->name != "add") return value;
  for (ValueId operand : program.ops[def].operands) {
    if (IsAccumulated(program.value_name(operand))) continue;
    value = operand;
  }
  return value;
}

// Returns the number of terms of the loss of a batch, with those that do not
// count.
double Terms(const Program& program) {
  DefUse def_use(program);
  for (const Output& output : program.outputs) {
    if (program.output_name(output) != kLossCount) continue;
    int def = def_use.def[WithoutStates(program, def_use, output.value)];
    if (def < 0 || program.ops[def].operands.empty()) continue;
    ValueId counts = program.ops[def].operands[0];
    return static_cast<double>(program.type(counts).num_elements());
  }
  return 1;
}

}  // namespace

// A state begins as 0. Gradients are of the sum of the terms, which has as many
// times the range of the mean.
absl::StatusOr<LossScale> AddLossScale(const Program& from, Builder& builder) {
  LossScale scale;
  scale.state =
      builder.Input(kLossScaleLog2, Type(DType::kF32, {}), InputRole::kState);
  auto number = [&](double value) {
    return builder.Constant(Tensor::FromDoubles(DType::kF32, {}, {value}));
  };
  double first = kFirstLossScaleLog2 - std::log2(Terms(from));
  ASYRA_ASSIGN_OR_RETURN(ValueId power,
                         builder.AddOne("add", {scale.state, number(first)}));
  // The fraction between two powers of two counts steps.
  ASYRA_ASSIGN_OR_RETURN(power, builder.AddOne("floor", {power}));
  ASYRA_ASSIGN_OR_RETURN(
      scale.scale, builder.AddOne("pow", {number(2), power}, {}, kLossScale));
  return scale;
}

}  // namespace asyra
