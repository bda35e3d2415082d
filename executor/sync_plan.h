// The events that make a program's order between streams real: the edges of
// ir/happens_before.h, less those that follow from others.
#pragma once

#include <vector>

#include "ir/happens_before.h"
#include "ir/program.h"

namespace asyra {

struct SyncPlan {
  struct Point {
    int stream = 0;          // index of the executor's stream
    bool record = false;     // another op waits for this one
    std::vector<int> waits;  // ops whose record this one waits for
  };
  std::vector<Point> ops;    // by op
  std::vector<int> last_on;  // by stream, its last op; -1: it has none
};

// Ops without a stream go on stream 0, as all do in a program without streams.
SyncPlan PlanSync(const Program& program, const HappensBefore& order,
                  const DefUse& def_use);

}  // namespace asyra
