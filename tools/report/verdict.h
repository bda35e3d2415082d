// The first lines of a report: the time of the step, compared with the
// unscheduled step and the lower bound, and the memory of the device.
#pragma once

#include <string>

#include "tools/report/schedule_report.h"

namespace asyra {

// "12.8 ms a step, 1.35x faster than unscheduled (17.3 ms); 5 % above the lower
// bound; 3.52 of 141.0 GiB" and a line break. Without `before` there is no
// comparison.
std::string VerdictText(const Steps& steps);

// "llama3-8b on h200x8, 4 devices (tp=4), 1.28 M tokens a second" and a line
// break.
std::string TargetText(const Profile& step);

}  // namespace asyra
