// What asyra-opt prints: what was imported, the plan, the schedule before and
// after.
#pragma once

#include <string>

#include "tools/compile.h"

namespace asyra {

struct ReportOptions {
  bool plan = false;  // with that of plan_report.h; `partitioned` is there
};

std::string TextReport(const CompileOptions& options,
                       const CompileResult& result,
                       const ReportOptions& report = {});
// One object with `baseline` and `optimized`, each with makespan_us, bubble,
// exposed_comm_us, peak_bytes, ops and collectives; see README.md. The plan is
// under `plan`.
std::string JsonReport(const CompileOptions& options,
                       const CompileResult& result,
                       const ReportOptions& report = {});

}  // namespace asyra
