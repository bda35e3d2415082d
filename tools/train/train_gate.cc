#include "tools/train/train_gate.h"

#include "executor/train/first_values.h"
#include "executor/train/token_batches.h"
#include "ir/support/status.h"
#include "ir/training_names.h"
#include "tools/run/run_gate.h"

namespace asyra {
namespace {

// Data inputs of `step` in their order: a batch, and a rate.
absl::StatusOr<std::vector<Tensor>> InputsOf(
    const Program& step, const std::shared_ptr<const TokenFiles>& data,
    const TokenReaderOptions& options, double rate, int64_t rank) {
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<TokenBatches> batches,
                         TokenBatches::Open(data, step, rank, options));
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, batches->Next());
  std::vector<Tensor> inputs;
  size_t next = 0;
  for (const Input& input : step.inputs) {
    if (input.role != InputRole::kData) continue;
    if (step.value_name(input.value) == kRate) {
      DType dtype = step.type(input.value).dtype;
      inputs.push_back(Tensor::FromDoubles(dtype, {}, {rate}));
    } else {
      inputs.push_back(batch.at(next++));
    }
  }
  return inputs;
}

}  // namespace

absl::StatusOr<std::vector<StepChoice>> StepChoices(
    const TrainingPrograms& programs) {
  if (!programs.unscheduled.has_value()) {
    return Invalid(
        "--gate: the training has no step before it was scheduled, as "
        "unscheduled.asyra of its folder");
  }
  std::vector<StepChoice> choices = {{"scheduled", programs}};
  for (const OtherStep& one : programs.candidates) {
    choices.push_back({one.name, programs});
    choices.back().programs.step = one.program;
  }
  choices.push_back({"unscheduled", programs});
  choices.back().programs.step = *programs.unscheduled;
  return choices;
}

absl::StatusOr<GateResult> ChooseStep(
    const TrainSettings& settings, absl::Span<const StepChoice> choices,
    const std::shared_ptr<const TokenFiles>& data, Device& device,
    Communicator& world, int64_t sharing) {
  std::vector<GateProgram> steps;
  for (const StepChoice& choice : choices) {
    const Program& step = choice.programs.step;
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<Tensor> inputs,
        InputsOf(step, data, {.document_end = settings.document_end},
                 RateAt(settings, 0), world.rank()));
    steps.push_back({choice.name, &step, std::move(inputs)});
  }
  const TrainingPrograms& programs = choices[0].programs;
  GateOptions options{.cache = &DiskCache::OfProcess(),
                      .again = settings.gate == kGateAgain,
                      .sharing = sharing};
  options.set_states = [&](StateSet& states) {
    return SetFirstValues(programs, settings.random_weights, settings.seed,
                          &world, states);
  };
  absl::StatusOr<GateResult> result = ChooseByMeasuring(
      steps, device, &world, programs.step.weights.get(), options);
  if (!result.ok()) return Annotate(result.status(), "--gate");
  return result;
}

}  // namespace asyra
