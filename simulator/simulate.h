// The simulator in one call: price every op, replay the program.
#pragma once

#include "simulator/replay.h"

namespace asyra {

SimResult Simulate(const Program& program, const CostModel& costs,
                   const ReplayOptions& options = {});

}  // namespace asyra
