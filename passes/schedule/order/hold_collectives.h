// Collectives start as soon as their operands are available
// (start_collectives.h). Collectives of parameters, as ZeRO gathers them, could
// all start with the step, and those that are computed again with forward:
// their results would fill the memory long before they are read. This lets them
// start when the step comes near to what reads them.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// Holds collectives of a scheduled program. A collective whose operands stay in
// memory anyway, or take less of it than its results, starts `after` the op
// that ends at least so many layers before the first reader of its results
// starts, along what that reader depends on, and moves behind that op in
// program order. One whose reader comes earlier in the step moves half the way
// to it, and may still start with the step: so that what the first reader
// depends on comes before what later layers read, where program order counts
// (ListOptions::window). The wait of a collective that alone reads its operands
// comes at most so much computation behind the collective in program order. A
// layer is the time of all computation by the most frequent matmul; ops count
// with their time alone. Returns the number of collectives that are held.
int HoldCollectives(Program& program, const CostModel& costs, double layers);

// The pass. Option: layers.
absl::StatusOr<bool> HoldCollectivesPass(Program& program,
                                         const PassOptions& options,
                                         PassContext& context);

}  // namespace asyra
