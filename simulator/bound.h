// How fast a program could run at best.
#pragma once

#include <algorithm>

#include "absl/types/span.h"
#include "ir/program.h"
#include "simulator/cost_model.h"
#include "simulator/dependencies.h"

namespace asyra {

// Three bounds that hold for any order of these ops on these streams, whatever
// runs beside what. Times are those of ops alone, which contention only
// lengthens. A server is what works on one thing at a time, or on parts of
// several: the computation of a stream, the collectives of a communicator, a
// resource.
struct LowerBounds {
  double critical_path_us = 0;  // of the data
  double load_us = 0;           // of the server with the most to do
  // Of some of a server's ops: what must come before any of them, all of
  // them, and what must come after any of them (the bound of one machine with
  // heads and tails, over the sets that begin, or end, latest).
  double head_load_tail_us = 0;

  double us() const {
    return std::max({critical_path_us, load_us, head_load_tail_us});
  }
};

// Without `contention` resources are no servers.
LowerBounds LowerBoundsOf(const Program& program,
                          absl::Span<const OpCost> op_costs,
                          const Dependencies& dependencies, bool contention);

}  // namespace asyra
