// The result of the compiler (compile.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "passes/pass_manager.h"
#include "passes/search/recompute_search.h"
#include "passes/search/schedule_result.h"
#include "simulator/cost/cost_model.h"
#include "simulator/replay/simulate.h"

namespace asyra {

struct CompileResult {
  // The local program before scheduling, of the sharding that costs least
  // unscheduled: the baseline. None if there was no local stage.
  std::optional<Program> partitioned;
  // The unscheduled program of the sharding that was taken, which may be
  // another one: with the params and states of `program`, whose place it can
  // take.
  std::optional<Program> unscheduled;
  Program program;  // stage allocated, unless `passes`, `estimate`
  // The schedule, if the default pipeline ran; its runners_up are of stage
  // allocated.
  std::optional<ScheduleResult> schedule;
  // The values that backward computes again instead of keeping them; none: no
  // values.
  std::optional<RecomputeReport> recompute;
  // Chunks of tokens in which the loss runs, where memory asks for them.
  int64_t loss_chunks = 1;
  // The sharding that was taken: --tp-strategy, and the level of ZeRO.
  std::string tp_strategy;
  int zero = 0;
  // SearchNoise of the schedule and of the others that were tried; 0 if none
  // was searched.
  double noise = 0;
  // The step of `program`, where its stage can be simulated.
  std::optional<SimResult> simulated;
  // The times between which a schedule lies, and what was done to fit, in
  // words; empty but for CompileOptions::estimate.
  std::string estimate;
  std::vector<std::string> remarks;
  std::vector<PassTiming> timings;
  std::unique_ptr<CostModel> costs;  // of the machine and the final mesh
};

}  // namespace asyra
