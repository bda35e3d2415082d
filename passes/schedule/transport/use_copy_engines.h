// Gives collectives copy engines before the order is searched, because the best
// order depends on what carries them: the time that each takes alone decides.
// The same is decided again for those that the library still carries, by the
// simulated step in the order that was found (assign_streams.h).
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "simulator/cost/cost_model.h"

namespace asyra {

// Returns whether copy engines of the machine can carry an op: a collective
// that they can carry on any machine, in a group that they connect on this one.
bool CanUseCopyEngine(const Program& program, const Op& op,
                      const CostModel& costs);

// Returns whether neither CTAs nor copy engines are set for a collective: the
// library carries it as it chooses.
bool IsCarrierOpen(const Op& op);

// Sets `transport=copy_engine` on collectives that copy engines can carry in
// hardly more time than the library takes alone: beside computation, they
// lose less. Only those whose carrier is open. Returns how many were set.
int UseCopyEngines(Program& program, const CostModel& costs);

// The pass `use_copy_engines`.
absl::StatusOr<bool> UseCopyEnginesPass(Program& program,
                                        const PassOptions& options,
                                        PassContext& context);

}  // namespace asyra
