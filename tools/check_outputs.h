// The outputs of a run against recorded ones, as asyra-run reports it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "tools/compare.h"
#include "tools/run_inputs.h"

namespace asyra {

struct CheckedOutput {
  std::string name;
  DType dtype;
  Shape shape;
  Comparison comparison;
  std::string first_difference;  // empty: it agrees
};

struct CheckedOutputs {
  std::vector<CheckedOutput> outputs;
  // Error when elements are beyond the tolerance.
  absl::Status verdict;
};

// Tolerances are those of each output's element type unless given.
// Errors: another number of outputs, another type.
absl::StatusOr<CheckedOutputs> CheckOutputs(const Program& program,
                                            const std::vector<Tensor>& outputs,
                                            const NamedTensors& recorded,
                                            std::optional<double> rtol,
                                            std::optional<double> atol);

}  // namespace asyra
