// What the params of a training step begin with where no file has their data.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "ir/tensor.h"

namespace asyra {

// Runs a program on whole inputs and gives its whole outputs.
using RunProgram = std::function<absl::StatusOr<std::vector<Tensor>>(
    const Program&, absl::Span<const Tensor>)>;

// Replaces those of `inputs`, one for each input of `step`, that are params
// called as one of `lacking` by what init.asyra in the folder of `path`, the
// file of `step`, gives them: what asyra-train begins with. Nothing happens if
// there is no such file. Errors: those of the file and of running it.
absl::Status SetFirstParams(const std::string& path, const Program& step,
                            const std::vector<std::string>& lacking,
                            int64_t seed, const RunProgram& run,
                            std::vector<Tensor>* inputs);

}  // namespace asyra
