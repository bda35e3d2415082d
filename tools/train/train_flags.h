// The flags of training steps.
#pragma once

#include <string>

#include "CLI/App.hpp"
#include "passes/pipeline.h"
#include "tools/compile_flags.h"

namespace asyra {

// Adds the flags of the optimizer, of the loss and of what is trained, which
// fill `options`. `train_names` are those of the flag that adds parameters.
void AddTrainFlags(CLI::App& app, TrainOptions* options,
                   const std::string& train_names = "--train-also");

// Adds --train, with what it `makes`, and these flags, which need it. `train`
// and `options` are theirs.
void AddTrainFlag(CLI::App& app, const std::string& makes, bool* train,
                  TrainOptions* options);

}  // namespace asyra
