// What scheduling did to a step, before and after, as asyra-opt tells it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "passes/ablation.h"
#include "simulator/profile.h"
#include "tools/compile.h"

namespace asyra {

struct Steps {
  std::optional<Profile> before;  // none: the program came with its schedule
  Profile after;
};

// Of a result that was simulated.
Steps StepsOf(const CompileOptions& options, const CompileResult& result);

// Time against the bound, communication by mesh axes, memory, kernels; what is
// still exposed and why; the schedules that were tried.
std::string ScheduleText(const CompileResult& result, const Steps& steps);

std::string AblationText(const std::vector<AblationRow>& rows);

// Adds `optimized`, `lower_bound_us` and `exposed`, and where it was scheduled
// `baseline`, `tiles`, `scheduler` and `rejected` (schema in README.md).
void AddScheduleJson(const CompileResult& result, const Steps& steps,
                     nlohmann::json* json);

}  // namespace asyra
