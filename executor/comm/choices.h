// Choices that the ranks of a run are given: they decide its results or the
// order of its collectives, and are no part of a program.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "executor/comm/communicator.h"

namespace asyra {

// A choice by the name that its user knows it by, "--rate" or "seed", and its
// value as text; empty: none was given. The same text means the same.
struct NamedChoice {
  std::string name;
  std::string value;
};

// Blocks until all ranks have called it. Error: the first choice that differs,
// with two of its values and ranks: "--rate is 0.001 on rank 0 and 0.003 on
// rank 1". A choice that only some ranks have is not given on the others. Ranks
// exchange hashes, and texts only if the hashes differ.
absl::Status CheckSameChoices(Communicator& world,
                              const std::vector<NamedChoice>& mine);

}  // namespace asyra
