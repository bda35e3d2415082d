// The best schedules beside the one taken, for a gate on measured steps.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

// A candidate that was not chosen, as it would run.
struct RunnerUp {
  std::string name;
  Program program;  // stage scheduled
  double makespan_us = 0;
};

inline bool IsFaster(const RunnerUp& a, const RunnerUp& b) {
  return a.makespan_us < b.makespan_us;
}

// Returns the fastest `most` of `others`, each another program, that can take
// the place of `program`: over its mesh, where need be with the same axes split
// (ir/split_axes.h), with params, weights and states of the same types.
absl::StatusOr<std::vector<RunnerUp>> RunnersUpOf(const Program& program,
                                                  std::vector<RunnerUp> others,
                                                  size_t most);

}  // namespace asyra
