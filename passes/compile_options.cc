#include "passes/compile_options.h"

namespace asyra {

ScheduleOptions ScheduleOptionsOf(const CompileOptions& options) {
  ScheduleOptions schedule = options.schedule;
  // Collectives on copy engines, or with other numbers of CTAs than the
  // library's, are rarely measured.
  if (options.measured_only) {
    schedule.closed.insert(schedule.closed.end(),
                           {"use_copy_engines", "leave_sm_margin"});
  }
  schedule.streams = StreamPasses(/*ctas=*/!options.measured_only);
  schedule.manager = options.manager;
  return schedule;
}

}  // namespace asyra
