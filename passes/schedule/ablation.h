// What each step of scheduling gives, one after the other.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/schedule/schedule.h"
#include "simulator/simulate.h"

namespace asyra {

struct AblationRow {
  std::string name;  // "+tile"
  SimResult result;
  int64_t device_bytes = 0;  // MemoryReport
};

// Of a local program: the baseline, tiled, its tiles reordered, and merged
// where that pays. `tiles` as the options ask for, or for 0 the most of 2 to
// kMostTiles that cut, along the dimension that they name, or for "auto" the
// first that cuts. Memory budgets are not looked at.
// Errors: no costs; why the program does not cut into tiles.
absl::StatusOr<std::vector<AblationRow>> Ablation(
    const Program& program, const ScheduleOptions& options,
    PassContext& context);

}  // namespace asyra
