// The flags of asyra-train that matter in each of its modes.
#pragma once

#include "absl/status/status.h"
#include "tools/train/train_settings.h"

namespace asyra {

// Error: a flag that was given and changes nothing in the mode that the others
// choose, or without another one: "--export has no effect with --sample".
absl::Status CheckGivenFlags(const TrainSettings& settings);

}  // namespace asyra
