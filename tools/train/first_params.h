// The first values of the params of a training step if no file has their data.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "ir/tensor.h"

namespace asyra {

struct FirstParams {
  // init.asyra, what asyra-train begins with; none: values are drawn.
  std::optional<Program> init;
  std::set<std::string> made;  // params without data that it makes
  // Each rank makes its shards by RunOptions::init, and no host holds a whole
  // model. It can where init shards params as the step does.
  bool by_rank = false;
};

// For the step in the file `path`: init.asyra of its folder, if `lacking` names
// a param of it. Errors: those of the file.
absl::StatusOr<FirstParams> ReadFirstParams(
    const std::string& path, const Program& step,
    const std::vector<std::string>& lacking);

// Runs a program on whole inputs and gives its whole outputs.
using RunProgram = std::function<absl::StatusOr<std::vector<Tensor>>(
    const Program&, absl::Span<const Tensor>)>;

// Replaces those of `inputs`, one for each of `step`, that init makes: by their
// values, or by nothing where ranks make them. Errors: those of the run.
absl::Status SetFirstParams(const FirstParams& first, const Program& step,
                            int64_t seed, const RunProgram& run,
                            std::vector<Tensor>* inputs);

}  // namespace asyra
