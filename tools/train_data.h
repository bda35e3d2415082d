// What a training step takes: tokens, labels, and what goes with them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "tools/token_file.h"
#include "tools/train_run.h"

namespace asyra {

// The integer data input that holds the tokens, [rows, length]. Errors: none,
// or several.
absl::StatusOr<const Input*> TokensOf(const Program& step);

// Adds what a step takes besides tokens and labels: a mask of ones, positions.
// Error: an input that is neither.
absl::Status AddOthers(const Program& step, TrainData* data);

// Errors: a token of the file `path` that the model does not have, or no class
// for it; labels of another type or shape than those of the tokens.
absl::Status CheckData(const TokenFile& file, const Program& step,
                       const Input& tokens, const std::string& path);

}  // namespace asyra
