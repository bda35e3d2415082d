// asyra-train --gate: whether a training runs with its schedule or without, by
// measured steps.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "executor/measured_gate.h"
#include "executor/train/token_files.h"
#include "executor/train/training_folder.h"
#include "tools/train_settings.h"

namespace asyra {

// The training with `unscheduled` as its step. Error: it has none.
absl::StatusOr<TrainingPrograms> WithoutSchedule(
    const TrainingPrograms& programs);

// Measures the step of `programs` as "scheduled" and that of `plain` as
// "unscheduled", as one rank of `world`, on the first batch of `data`. Trials
// begin with first values of their own; params and states of the training,
// which have no memory yet, are not touched.
absl::StatusOr<GateResult> ChooseStep(
    const TrainSettings& settings, const TrainingPrograms& programs,
    const TrainingPrograms& plain,
    const std::shared_ptr<const TokenFiles>& data, Device& device,
    Communicator& world, int64_t sharing);

}  // namespace asyra
