// Merges tiles back where cutting them does not pay (ASYRA 3.3.3): small tiles
// lose efficiency, and only those beside a collective have something to hide.
//
// Candidates are runs of computing ops between two communications that all
// lanes have alike. Each is merged and replayed on the simulator, in program
// order, and kept when the makespan falls and the peak stays in the budget.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// Options: memory_gib (float, 0: no budget).
// Error: no machine to price with.
absl::StatusOr<bool> Bucket(Program& program, const PassOptions& options,
                            PassContext& context);

}  // namespace asyra
