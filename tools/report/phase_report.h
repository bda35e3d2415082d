// The time of a training step, by phase.
#pragma once

#include <string>

#include "ir/program.h"
#include "nlohmann/json_fwd.hpp"
#include "simulator/report/profile.h"

namespace asyra {

// A row for each of forward, backward and update (passes/train/step_phase.h):
// its part of the makespan (while phases overlap, time is the earlier one's),
// the sum of its ops' times, its collectives, and the time in which these run
// and no computation does. Empty if `program`, which
// `profile` is of, is no training step.
std::string PhasesText(const Program& program, const Profile& profile);

// {"forward": {"elapsed_us", "compute_us", "comm_us", "exposed_us",
// "collectives"}, ...}
nlohmann::json PhasesJson(const Program& program, const Profile& profile);

}  // namespace asyra
