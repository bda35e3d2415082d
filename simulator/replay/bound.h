// Lower bounds on the time of a program.
#pragma once

#include <algorithm>

#include "absl/types/span.h"
#include "ir/program.h"
#include "simulator/cost/cost_model.h"
#include "simulator/replay/dependencies.h"

namespace asyra {

// Three bounds that hold for any order of these ops on these streams. Times are
// those of ops alone; contention only makes them longer. A server processes one
// op at a time, or parts of several: the computation of a stream, the
// collectives of a communicator, a resource.
struct LowerBounds {
  double critical_path_us = 0;  // of the data
  double load_us = 0;           // of the server with the largest load
  // For subsets of a server's ops: the shortest head, plus the load, plus the
  // shortest tail (the one-machine bound with heads and tails, over the sets
  // that begin, or end, latest).
  double head_load_tail_us = 0;

  double us() const {
    return std::max({critical_path_us, load_us, head_load_tail_us});
  }
};

// Without `contention` resources do not count as servers.
LowerBounds LowerBoundsOf(const Program& program,
                          absl::Span<const OpCost> op_costs,
                          const Dependencies& dependencies, bool contention);

}  // namespace asyra
