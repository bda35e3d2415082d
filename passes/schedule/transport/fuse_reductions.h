// Makes one kernel of a reduction over devices and of the rows that are
// computed from it, such as residual and norm (ir/plans/fused_reduction.h): the
// kernel reads the summands in the memory of the other devices. A gather of
// what it computes goes into it too, and is then written to their memory.
//
// For small messages: what several kernels cost is more than the bytes, and
// nothing is long enough to hide them behind.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "simulator/cost/cost_model.h"

namespace asyra {

struct FuseReductionsOptions {
  bool gathers = true;  // of its results too
  bool always = false;  // also where that is no faster, or does not run so
};

// Fuses reductions in a scheduled program; returns their number. By cost, one
// is made where it is faster alone than what it is made of.
absl::StatusOr<int> FuseReductions(Program& program,
                                   const FuseReductionsOptions& options,
                                   const CostModel& costs);

// Returns whether some reduction is over devices that reach each other's
// memory.
bool HasReductionsInReach(const Program& program, const Machine& machine);

// The pass `fuse_reductions`.
absl::StatusOr<bool> FuseReductionsPass(Program& program,
                                        const PassOptions& options,
                                        PassContext& context);

}  // namespace asyra
