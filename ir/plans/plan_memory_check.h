// Checks whether every step of a chunk plan finds in memory what it is to read:
// part of ir/plans/verify_plan.h.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "ir/plans/plan_clocks.h"
#include "ir/plans/plan_exchanges.h"

namespace asyra {

// Checks that what a step reads was written before, nothing is written twice,
// and results are complete; a rank's memory is used by others only while its op
// runs, and again only when nobody needs the old bytes; what several ranks hold
// is equal bit for bit. `most_workspace_bytes` as VerifyPlanOptions has it.
absl::Status CheckPlanMemory(const ChunkPlan& plan,
                             const PlanExchanges& exchanges,
                             const PlanClocks& clocks,
                             int64_t most_workspace_bytes);

}  // namespace asyra
