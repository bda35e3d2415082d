// What is decided on a schedule by costs alone, decided again at others.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "simulator/cost_model.h"

namespace asyra {

// `program`, scheduled or allocated, with CTAs and copy engines of its
// collectives chosen as `costs` say, whatever they were. Order, streams and
// tiles stay, and places in memory with them.
absl::StatusOr<Program> Retuned(Program program, const CostModel& costs);

}  // namespace asyra
