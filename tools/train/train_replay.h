// Comparing with what another framework has recorded (--check).
#pragma once

#include "absl/status/statusor.h"
#include "tools/train/compile_training.h"
#include "tools/train/train_settings.h"

namespace asyra {

// The model of the settings with all that its training needs.
absl::StatusOr<RaisedModel> LoadForTraining(const CompileFlags& flags);

// Replays the recorded run of the file `check` and prints the errors of losses,
// norms and last logits. Error: they are beyond --rtol.
absl::Status ReplayRun(const TrainSettings& settings);

// The same for loss and gradients of a model that ends in a loss, recorded in
// the folder `check`.
absl::Status CheckFolder(const TrainSettings& settings);

}  // namespace asyra
