// Copy engines for collectives before their order is searched: what an order
// is worth depends on what carries them. Later, assign_streams
// (assign_streams.h) asks again for those that are left, in the order that was
// found.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "simulator/cost_model.h"

namespace asyra {

// Whether copy engines of the machine can carry an op: a collective that they
// can carry on any, in a group that they connect on this one.
bool CanUseCopyEngine(const Program& program, const Op& op,
                      const CostModel& costs);

// Sets `transport=copy_engine` on the collectives that the machine can carry so
// and that take hardly longer alone than by the library: beside computation
// copies lose less. Those whose CTAs are given stay as they are. Returns how
// many were set.
int CarryByCopyEngine(Program& program, const CostModel& costs);

// The pass `use_copy_engines`.
absl::StatusOr<bool> UseCopyEnginesPass(Program& program,
                                        const PassOptions& options,
                                        PassContext& context);

}  // namespace asyra
