// Runs several small collectives as one, to pay the latency of a launch once
// (combining in XLA, a group in NCCL). All begin when the last operand is
// ready, and all end together.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

// Indices of `start` ops that are to be one.
using JoinGroup = std::vector<int>;

// Returns whether two ops can be joined: starts of the same collective with
// equal attributes, and so over the same axes, on one stream.
bool Joinable(const Op& a, const Op& b);

// Returns `program`, of stage scheduled, with each group joined: one start with
// the operands and the futures of all. Each future keeps its name and its wait.
// Program order is kept as far as possible, with a joined start at the position
// of its last member. An op that is in an earlier group, or cannot be joined
// with the first of its group, stays unchanged. An order of the program's ops,
// where one is given, becomes one of the result's in the same way.
// Error: members that wait for each other, or groups that do.
absl::StatusOr<Program> JoinCollectives(const Program& program,
                                        const std::vector<JoinGroup>& groups,
                                        std::vector<int>* order = nullptr);

}  // namespace asyra
