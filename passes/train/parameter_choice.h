// The choice of the weights that are parameters, as users say it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/train/parameters.h"

namespace asyra {

// Regular expressions that are compared with whole names, of tensors of the
// model's file and of weights of the program; empty: none.
struct ParameterChoice {
  std::string train;   // parameters, though they look like constants
  std::string freeze;  // no parameters
};

// Applies the choice. `notes` gets a line for each alternative of a pattern
// that matches nothing. Errors: no regular expression; one that matches no
// float weight; a weight that both match; one to be trained that no gradient
// can reach, or that a pass has computed; no parameter that is left.
absl::StatusOr<WeightRoles> Choose(const Program& program, WeightRoles roles,
                                   const ParameterChoice& choice,
                                   std::vector<std::string>* notes);

}  // namespace asyra
