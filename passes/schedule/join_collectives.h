// Runs several collectives as one, where many small ones would each pay the
// latency of a launch: XLA calls it combining, NCCL a group. All begin when
// the last operand is there, and all are over when one of them is.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

// Indices of `start` ops that are to be one.
using JoinGroup = std::vector<int>;

// Whether one op can stand for both: starts of one collective with equal
// attributes, and so over the same axes, on one stream.
bool Joinable(const Op& a, const Op& b);

// `program`, of stage scheduled, with each group joined: one start with the
// operands and the futures of all. Each future keeps its name and its wait.
// The text is the old one as far as it can be, a joined start standing where
// its last member stood. What is in a group already, or cannot be joined with
// the first of its group, stays as it is. An order of the program's ops, where
// one is given, becomes one of the result's in the same way.
// Error: members that wait for each other, or groups that do.
absl::StatusOr<Program> JoinCollectives(const Program& program,
                                        const std::vector<JoinGroup>& groups,
                                        std::vector<int>* order = nullptr);

}  // namespace asyra
