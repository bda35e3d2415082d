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
#include "simulator/profile.h"

namespace asyra {

// Predicted on the machine that the training was compiled for, with `edits` as
// LoadMachine takes them; and `times` of rank 0 in step `number` on a device,
// "cpu". Only the second where that machine is not known. Errors: ops of
// overlaps that cannot be put in place.
absl::StatusOr<std::vector<Profile>> StepTimelines(
    const TrainingPrograms& training, const std::vector<std::string>& edits,
    absl::Span<const OpTime> times, int64_t number, std::string_view device);

}  // namespace asyra
