// The output of asyra-opt: the imported model, the plan, the step before and
// after scheduling.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/compile.h"
#include "tools/report/batches_report.h"
#include "tools/report/mesh_advice.h"
#include "tools/report/schedule_report.h"

namespace asyra {

struct ReportOptions {
  MeshAdvice advice;
  // Also all schedules that were tried, and remarks of passes that changed
  // nothing.
  bool verbose = false;
  bool plan = false;  // with the plan of plan_report.h; needs `partitioned`
  std::optional<BatchesReport> batches;  // of a step of several
  std::vector<AblationRow> ablation;     // empty: none was asked for
};

// A line each: on weights, on the mesh, and remarks of passes.
std::vector<std::string> NotesOf(const CompileFlags& options,
                                 const CompiledModel& result,
                                 const ReportOptions& report);
// `steps` are set if the result was simulated.
std::string TextReport(const CompileFlags& options, const CompiledModel& result,
                       const std::optional<Steps>& steps,
                       const ReportOptions& report = {});
// One object with what AddScheduleJson adds; see docs/cli.md. The plan is under
// `plan`.
std::string JsonReport(const CompileFlags& options, const CompiledModel& result,
                       const std::optional<Steps>& steps,
                       const ReportOptions& report = {});

}  // namespace asyra
