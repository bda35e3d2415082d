// Chunk plans between ranks that are threads: a queue copies straight into the
// memory of another rank, and signals are counters that all of them see.
#pragma once

#include <memory>

#include "executor/comm/plan_link.h"
#include "executor/comm/shared_world.h"

namespace asyra {

// Makes the link of `rank` of the world, a member of the plan.
std::unique_ptr<PlanLink> MakeThreadPlan(std::shared_ptr<SharedWorld> world,
                                         int64_t rank, const PlanUse& use);

}  // namespace asyra
