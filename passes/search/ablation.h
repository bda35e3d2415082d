// The gain of each step of scheduling, one after the other.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/search/schedule_options.h"
#include "simulator/replay/simulate.h"

namespace asyra {

struct AblationRow {
  std::string name;  // "+tile"
  SimResult result;
  int64_t device_bytes = 0;  // MemoryReport
};

// Simulates variants of a local program: the baseline, tiled, its tiles
// reordered, and merged where that pays. `tiles` as in the options, or for 0
// the largest number from 2 to kMostTiles that is possible, along the dimension
// of the options, or for "auto" the first possible one. Memory limits are
// ignored.
// Errors: no cost model; the program cannot be tiled, with the reason.
absl::StatusOr<std::vector<AblationRow>> Ablation(
    const Program& program, const ScheduleOptions& options,
    PassContext& context);

}  // namespace asyra
