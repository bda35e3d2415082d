// How fast a program could run at best.
#pragma once

#include "absl/types/span.h"
#include "ir/program.h"
#include "simulator/cost_model.h"
#include "simulator/dependencies.h"

namespace asyra {

// No order of these ops on these streams takes less, whatever runs beside
// what: the largest of the critical path of the data, the computation of each
// stream, the load of all computation on the SMs and on memory, and the
// collectives of each communicator. Times are those of ops alone, which
// contention only lengthens. Without `contention` the loads do not bound.
double LowerBoundUs(const Program& program, absl::Span<const OpCost> prices,
                    const Dependencies& dependencies, bool contention);

}  // namespace asyra
