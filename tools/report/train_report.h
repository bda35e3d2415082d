// The performance of a training step: tokens a second and MFU, time and memory
// by what they are for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"
#include "nlohmann/json.hpp"
#include "passes/search/recompute_search.h"
#include "simulator/cost/cost_model.h"
#include "simulator/replay/replay.h"
#include "simulator/report/profile.h"
#include "tools/report/step_memory.h"

namespace asyra {

struct TrainReport {
  double tokens_per_s_device = 0;            // 0: no known shape of the step
  std::string_view unit = "tokens";          // StepShape::unit
  std::string phases;                        // PhasesText
  nlohmann::json phases_json;                // PhasesJson
  std::optional<RecomputeReport> recompute;  // set by the caller
  int64_t loss_chunks = 1;                   // set by the caller
  std::vector<MemoryPart> memory;
};

// None unless `program` is a training step. Sets `profile`'s MFU to
// TrainingMfu; both are of `result`.
std::optional<TrainReport> ReportTraining(const Program& program,
                                          const SimResult& result,
                                          const Machine& machine,
                                          Profile* profile);

// Rows below the report of a step.
std::string TrainText(const TrainReport& report);
// {"tokens_per_s_device", "phases": PhasesJson, "loss_chunks", "recompute":
// RecomputeJson, "memory": StepMemoryJson}
nlohmann::json TrainJson(const TrainReport& report);

}  // namespace asyra
