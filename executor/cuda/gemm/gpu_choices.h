// Choices (executor/tuning/choices.h) that kernels of GPUs are prepared with.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "executor/tuning/choice_store.h"

namespace asyra::cuda {

// Those of this process, kept on disk.
ChoiceStore& GpuChoices();

// What choices on the current GPU hang on besides the use and the library:
// "NVIDIA H200, 132 multiprocessors, driver 13.0".
absl::StatusOr<std::string> GpuModel();

}  // namespace asyra::cuda
