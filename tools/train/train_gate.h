// asyra-train --gate: with which of its schedules a training runs, or without,
// by measured steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/measured_gate.h"
#include "executor/train/token_files.h"
#include "executor/train/training_folder.h"
#include "tools/train/train_settings.h"

namespace asyra {

// A training, by the name of its step.
struct StepChoice {
  std::string name;
  TrainingPrograms programs;
};

// The training as it is, "scheduled"; with each of its candidates as the step;
// and with `unscheduled`. Error: it has no unscheduled step.
absl::StatusOr<std::vector<StepChoice>> StepChoices(
    const TrainingPrograms& programs);

// Measures the step of each, as one rank of `world`, on the first batch of
// `data`. Trials begin with first values of their own; params and states of
// the training, which have no memory yet, are not touched.
absl::StatusOr<GateResult> ChooseStep(
    const TrainSettings& settings, absl::Span<const StepChoice> choices,
    const std::shared_ptr<const TokenFiles>& data, Device& device,
    Communicator& world, int64_t sharing);

}  // namespace asyra
