// The timelines of a training step side by side: as the simulator expects it,
// and as it ran.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/executor.h"
#include "executor/train/training_folder.h"
#include "simulator/report/profile.h"

namespace asyra {

// A step of rank 0 as it ran.
struct MeasuredStep {
  const Program& program;  // Trainer::running_step
  absl::Span<const OpTime> times;
  int64_t number = 0;
  std::string_view device;  // "cpu"
};

// Predicted on the machine that the training was compiled for, with `edits` as
// LoadMachine takes them; and measured. Only the second where that machine is
// not known.
absl::StatusOr<std::vector<Profile>> StepTimelines(
    const TrainingPrograms& training, const std::vector<std::string>& edits,
    const MeasuredStep& step);

}  // namespace asyra
