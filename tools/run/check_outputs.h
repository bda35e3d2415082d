// Comparison of outputs with recorded ones, for asyra-run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "tools/report/compare.h"
#include "tools/weight_data.h"

namespace asyra {

struct CheckedOutput {
  std::string name;
  DType dtype;
  Shape shape;
  Tolerance tolerance;
  Comparison comparison;
  std::string first_difference;  // empty: it agrees
};

struct CheckedOutputs {
  std::vector<CheckedOutput> outputs;
  // Error when elements are beyond the tolerance: how many, and which.
  absl::Status verdict;
  bool passed() const { return verdict.ok(); }
};

// Tolerances are those of each output's element type unless given. Recorded
// tensors are matched by name, or in order if no name is that of an output.
// Errors: another number of outputs, an output that is not recorded while
// others are by name, another type.
absl::StatusOr<CheckedOutputs> CheckOutputs(const Program& program,
                                            const std::vector<Tensor>& outputs,
                                            const NamedTensors& recorded,
                                            std::optional<double> rtol,
                                            std::optional<double> atol);

// "check passed: 2 outputs within rtol 0.001, atol 1e-05", or "check failed: 3
// elements of 1 of 2 outputs are beyond rtol 0.001, atol 1e-05"; several
// tolerances are all named.
std::string VerdictText(const CheckedOutputs& checked);

}  // namespace asyra
