// Weights that a model stores twice.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/train/parameters.h"

namespace asyra {

// Makes those of `parameters` one whose data is that of an earlier one, as it
// is or, of rank 2, transposed: readers of the later one read the earlier one.
// Vectors and matrices of one number everywhere are never taken for the same.
// Gives a line for each, and the parameters that are left.
absl::StatusOr<std::vector<std::string>> TieWeights(
    Program& program, std::vector<Parameter>* parameters);

}  // namespace asyra
