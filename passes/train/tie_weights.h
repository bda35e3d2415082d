// Weights that a model stores twice.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/train/parameters.h"

namespace asyra {

// Regular expressions for whole names; empty: none.
struct TieChoice {
  std::string tie;    // of equal bytes: one parameter, whatever reads them
  std::string untie;  // stay apart
};

// Makes the table of a lookup and the matrix of the head one parameter where
// the data of the later one is that of the earlier one, as it is or, of rank 2,
// transposed: readers of the later one read the earlier one, whose origin has
// the other name too (WeightOrigin::tied). The head is a matmul from whose
// result no other matmul or attention is on the way to an output. Other weights
// may be equal by chance, as copies of layers are at first, and stay apart
// unless `choice` says otherwise; so do vectors and matrices of one scalar
// everywhere. Gives a line for each tie. Errors: no regular expression; one
// that matches none of the parameters; `tie` of weights that differ from all
// others; `untie` of weights none of which would be tied.
absl::StatusOr<std::vector<std::string>> TieWeights(
    Program& program, const std::vector<Parameter>& parameters,
    const TieChoice& choice = {});

}  // namespace asyra
