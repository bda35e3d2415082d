#include "executor/train/step_inputs.h"

#include <cmath>

#include "absl/algorithm/container.h"
#include "ir/support/status.h"
#include "ir/training_names.h"

namespace asyra {
namespace {

absl::Status CheckStep(const Program& step) {
  if (!HasInput(step, kRate)) {
    return Invalid("@{} has no input %{}: it is no training step", step.name,
                   kRate);
  }
  for (const char* name : {kLoss, kNorm}) {
    bool has = absl::c_any_of(step.outputs, [&](const Output& output) {
      return step.output_name(output) == name;
    });
    if (!has) {
      return Invalid("@{} has no output '{}': it is no training step",
                     step.name, name);
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool HasInput(const Program& program, std::string_view name) {
  return absl::c_any_of(program.inputs, [&](const Input& input) {
    return program.value_name(input.value) == name;
  });
}

std::vector<Executor::NamedInput> BatchInputsOf(const Program& program) {
  std::vector<Executor::NamedInput> inputs;
  for (const Input& input : program.inputs) {
    const std::string& name = program.value_name(input.value);
    if (input.role != InputRole::kData || name == kRate) continue;
    inputs.push_back({name, program.type(input.value).Local(program.mesh)});
  }
  return inputs;
}

std::vector<std::string> GradientSumsOf(const Program& step) {
  std::vector<std::string> sums;
  for (const Input& input : step.inputs) {
    const std::string& name = step.value_name(input.value);
    if (IsAccumulated(name)) sums.push_back(name);
  }
  return sums;
}

absl::Status CheckTraining(const TrainingPrograms& programs) {
  const Program& step = programs.step;
  ASYRA_RETURN_IF_ERROR(CheckStep(step));
  if (!programs.accumulate.has_value()) return absl::OkStatus();
  const Program& other = *programs.accumulate;
  auto own = BatchInputsOf(step), its = BatchInputsOf(other);
  bool same = absl::c_equal(own, its, [](const auto& a, const auto& b) {
    return a.name == b.name && a.local == b.local;
  });
  if (!same) {
    return Invalid("@{} and @{} take different batches", other.name, step.name);
  }
  if (!GradientSumsOf(step).empty()) return absl::OkStatus();
  return Invalid("@{} has no state for what @{} adds up", step.name,
                 other.name);
}

absl::Status CheckRate(const Program& step, double rate) {
  double rounded = rate;
  for (const Input& input : step.inputs) {
    if (step.value_name(input.value) != kRate) continue;
    DType dtype = step.type(input.value).dtype;
    rounded = Tensor::FromDoubles(dtype, {}, {rate}).Get(0);
  }
  if (rounded >= 0 && std::isfinite(rounded)) return absl::OkStatus();
  return Invalid("the learning rate is {}, it must be finite and at least 0",
                 rate);
}

absl::StatusOr<std::vector<Tensor>> StepInputs(const Program& step,
                                               absl::Span<const Tensor> batch,
                                               double rate) {
  ASYRA_RETURN_IF_ERROR(CheckRate(step, rate));
  std::vector<Tensor> inputs;
  size_t next = 0, wanted = 0;
  for (const Input& input : step.inputs) {
    if (input.role != InputRole::kData) continue;
    if (step.value_name(input.value) == kRate) {
      DType dtype = step.type(input.value).dtype;
      inputs.push_back(Tensor::FromDoubles(dtype, {}, {rate}));
    } else if (++wanted; next < batch.size()) {
      inputs.push_back(batch[next++]);
    }
  }
  if (wanted == batch.size()) return inputs;
  return Invalid("a batch of {} inputs is given, a step takes {}", batch.size(),
                 wanted);
}

}  // namespace asyra
