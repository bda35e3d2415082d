// Collectives start as soon as their operands are there (start_collectives.h).
// Those of parameters, as ZeRO gathers them, could all start with the step, and
// those that are computed again with forward: their results would fill the
// memory long before they are read. This lets them start when the step comes
// near to what reads them.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// A collective whose operands stay in memory anyway, or take less of it than
// its results, starts `after` the op that ends at least so many layers before
// the first reader of its results starts, along what that reader depends on,
// and moves in the text behind that op. One whose reader comes earlier in the
// step moves half the way to it, and may still start with the step: so that
// what the first reader depends on comes before what later layers read, where
// the order of the text counts (ListOptions::window). The wait of a collective
// that alone reads its operands comes at most so much computation behind the
// collective in the text. A layer is the time of all computation by the most
// frequent matmul; ops count with their time alone. Returns how many
// collectives are held. The program is scheduled.
int HoldCollectives(Program& program, const CostModel& costs, double layers);

// The pass. Option: layers.
absl::StatusOr<bool> HoldCollectivesPass(Program& program,
                                         const PassOptions& options,
                                         PassContext& context);

}  // namespace asyra
