// The simulator in one call: estimates every op, replays the program.
#pragma once

#include "simulator/replay/replay.h"

namespace asyra {

SimResult Simulate(const Program& program, const CostModel& costs,
                   const ReplayOptions& options = {});

}  // namespace asyra
