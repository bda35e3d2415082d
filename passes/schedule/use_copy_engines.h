// Assigns copy engines to collectives before the order is searched, because the
// best order depends on it. Later, assign_streams (assign_streams.h) decides
// again for the remaining ones, in the order that was found.
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

// Sets `transport=copy_engine` on collectives that copy engines can carry in
// hardly more time than the library takes alone: beside computation, they
// lose less. Collectives with the attribute `ctas` stay unchanged. Returns how
// many were set.
int UseCopyEngines(Program& program, const CostModel& costs);

// The pass `use_copy_engines`.
absl::StatusOr<bool> UseCopyEnginesPass(Program& program,
                                        const PassOptions& options,
                                        PassContext& context);

}  // namespace asyra
