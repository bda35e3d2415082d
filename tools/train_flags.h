// The flags of training steps.
#pragma once

#include "CLI/App.hpp"
#include "passes/pipeline.h"
#include "tools/compile_flags.h"

namespace asyra {

// Adds the flags of the optimizer and of the loss, which fill `options`.
void AddTrainFlags(CLI::App& app, TrainOptions* options);

}  // namespace asyra
