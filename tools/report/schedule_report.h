// The effect of scheduling on a step, for asyra-opt.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "passes/search/ablation.h"
#include "simulator/report/profile.h"
#include "tools/compile.h"

namespace asyra {

struct Steps {
  std::optional<Profile> before;  // none: the program came with its schedule
  Profile after;
};

// Returns the steps of a result that was simulated.
Steps StepsOf(const CompileFlags& options, const CompiledModel& result);

// The schedule that was chosen, the communication that is still exposed, in at
// most `few_rows` and one for all others, and why. If verbose also time against
// the bound, communication by mesh axes, memory and kernels before and after,
// and all schedules that were tried.
std::string ScheduleText(const CompiledModel& result, const Steps& steps,
                         bool verbose, size_t few_rows);

std::string AblationText(const std::vector<AblationRow>& rows);
nlohmann::json AblationJson(const std::vector<AblationRow>& rows);

// Adds `optimized`, `lower_bound_us` and `exposed`, and where it was scheduled
// `baseline`, `tiles`, `scheduler` and `rejected` (schema in docs/cli.md).
void AddScheduleJson(const CompiledModel& result, const Steps& steps,
                     nlohmann::json* json);

}  // namespace asyra
