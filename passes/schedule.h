// Chooses a schedule: tries the candidates the pipeline can make, judges each
// on the simulator, and returns the best. The program as it stands is among
// them, so the result is never worse than it (the gate of DESIGN 4).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/pass_manager.h"
#include "simulator/simulate.h"

namespace asyra {

struct ScheduleOptions {
  // 0: the best of 1 and 2; otherwise exactly that many, better or not.
  int tiles = 0;
  PassManagerOptions manager;  // for the passes of the candidates
};

struct ScheduleChoice {
  std::string name;  // "2 tiles, segmented round robin, bucketed"
  double makespan_us = 0;
  int64_t peak_bytes = 0;
  std::string rejected;  // why, empty for the one chosen
};

struct ScheduleResult {
  Program program;     // stage scheduled
  SimResult baseline;  // of the local program: collectives block
  SimResult optimized;
  int tiles = 1;
  std::vector<ScheduleChoice> candidates;
};

// Of a local program; context.costs must be there.
absl::StatusOr<ScheduleResult> Schedule(const Program& program,
                                        const ScheduleOptions& options,
                                        PassContext& context);

}  // namespace asyra
