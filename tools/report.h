// What asyra-opt prints: what was imported, the plan, the schedule before and
// after.
#pragma once

#include <optional>
#include <string>

#include "tools/compile.h"
#include "tools/schedule_report.h"

namespace asyra {

struct ReportOptions {
  bool plan = false;  // with that of plan_report.h; `partitioned` is there
};

// `steps` are there where the result was simulated.
std::string TextReport(const CompileOptions& options,
                       const CompileResult& result,
                       const std::optional<Steps>& steps,
                       const ReportOptions& report = {});
// One object with what AddScheduleJson adds; see README.md. The plan is under
// `plan`.
std::string JsonReport(const CompileOptions& options,
                       const CompileResult& result,
                       const std::optional<Steps>& steps,
                       const ReportOptions& report = {});

}  // namespace asyra
