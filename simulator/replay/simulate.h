// The simulator in one call: estimates every op, replays the program.
#pragma once

#include "simulator/replay/replay.h"

namespace asyra {

// At the clock of `costs`, or, where they have none and the machine's power is
// known, at the clock that the program has in long rows of steps (StepClock).
SimResult Simulate(const Program& program, const CostModel& costs,
                   const ReplayOptions& options = {});

}  // namespace asyra
