// First values of params that no file has.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "ir/training_names.h"

namespace asyra {

// Returns a global program that makes first values of the weights `names` of
// `model`, a global program itself, as outputs of their names: scales are 1,
// biases 0, tables and matrices are normal with deviation 0.02. They depend on
// the data input kSeed and the name alone: the same on any mesh. What is
// padding is 0. Values have the types of params: 16-bit ones are f32. Where
// another program has `padded` the weights, they have its sizes.
// Errors: a name that is no parameter (parameters.h).
absl::StatusOr<Program> InitProgram(const Program& model,
                                    const std::vector<std::string>& names,
                                    const Program* padded = nullptr);

}  // namespace asyra
