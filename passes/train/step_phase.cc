#include "passes/train/step_phase.h"

#include <utility>

#include "ir/training_names.h"
#include "passes/analysis/reach.h"

namespace asyra {
namespace {

ValueId OutputCalled(const Program& program, std::string_view name) {
  for (const Output& output : program.outputs) {
    if (program.output_name(output) == name) return output.value;
  }
  return kNoValue;
}

// Returns the phases of a program that adds gradients to those of other
// batches, and updates nothing: what its loss and the count of its terms do not
// need is backward.
std::vector<StepPhase> PhasesWithoutUpdate(const Program& program) {
  std::vector<bool> values(program.values.size(), false);
  bool has_loss = false, has_sums = false;
  for (const Output& output : program.outputs) {
    const std::string& name = program.output_name(output);
    bool is_loss = name == kLossSum || name == kLossCount;
    if (is_loss) values[output.value] = has_loss = true;
    has_sums |= output.alias != kNoValue &&
                IsAccumulated(program.value_name(output.alias));
  }
  if (!has_loss || !has_sums) return {};
  std::vector<bool> forward = Ancestors(program, values);
  std::vector<StepPhase> phases;
  for (bool is : forward) {
    phases.push_back(is ? StepPhase::kForward : StepPhase::kBackward);
  }
  return phases;
}

}  // namespace

std::string_view ToString(StepPhase phase) {
  switch (phase) {
    case StepPhase::kForward:
      return "forward";
    case StepPhase::kBackward:
      return "backward";
    case StepPhase::kUpdate:
      return "update";
  }
  return "";
}

std::vector<bool> ForwardOps(const Program& program) {
  std::vector<bool> values(program.values.size(), false);
  for (std::string_view name : {kLoss, kLossSum}) {
    ValueId loss = OutputCalled(program, name);
    if (loss != kNoValue) values[loss] = true;
  }
  return Ancestors(program, std::move(values));
}

std::vector<StepPhase> PhasesOf(const Program& program) {
  ValueId loss = OutputCalled(program, kLoss);
  ValueId norm = OutputCalled(program, kNorm);
  if (loss == kNoValue || norm == kNoValue) return PhasesWithoutUpdate(program);
  std::vector<bool> values(program.values.size(), false);
  values[loss] = true;
  std::vector<bool> forward = Ancestors(program, values);

  values.assign(values.size(), false);
  values[norm] = true;
  for (const Input& input : program.inputs) {
    const std::string& name = program.value_name(input.value);
    bool starts = name == kRate || name == kStepCount;
    if (starts) values[input.value] = true;
  }
  std::vector<bool> update = Descendants(program, values);

  // Gradients are what updates read and is not one itself.
  values.assign(values.size(), false);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (!update[i]) continue;
    for (ValueId operand : program.ops[i].operands) values[operand] = true;
  }
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (!update[i]) continue;
    for (ValueId result : program.ops[i].results) values[result] = false;
  }
  values[norm] = false;
  std::vector<bool> backward = Ancestors(program, values);

  std::vector<StepPhase> phases;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    phases.push_back(forward[i]    ? StepPhase::kForward
                     : update[i]   ? StepPhase::kUpdate
                     : backward[i] ? StepPhase::kBackward
                                   : StepPhase::kUpdate);
  }
  return phases;
}

bool IsTrainingStep(const Program& program) {
  return !PhasesOf(program).empty();
}

}  // namespace asyra
