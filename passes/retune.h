// Decides again, at other costs, what only costs decide in a schedule.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "simulator/cost/cost_model.h"

namespace asyra {

// Returns `program`, scheduled or allocated, with CTAs and copy engines of its
// collectives chosen anew by `costs`. Order, streams, tiles and memory offsets
// stay.
absl::StatusOr<Program> Retuned(Program program, const CostModel& costs);

}  // namespace asyra
