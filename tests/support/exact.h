// The best order of a small program, by branch and bound: what schedulers and
// bounds are tested against.
#pragma once

#include <vector>

#include "simulator/replay/costed_program.h"

namespace asyra {

struct ExactSchedule {
  double makespan_us = 0;
  std::vector<int> order;  // of issue, as Replay takes it
};

// Over all orders of issue, streams as the program has them, without
// contention and with a host that costs nothing. At most 30 ops; about 25 take
// a second.
ExactSchedule SolveExactly(const CostedProgram& costed);

}  // namespace asyra
