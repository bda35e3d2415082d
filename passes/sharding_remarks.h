// What a plan tells the user: axes that shard nothing, ops that an axis could
// not divide, keys and values that are gathered because heads do not divide.
#pragma once

#include "absl/status/status.h"
#include "passes/axis_roles.h"
#include "passes/pass.h"
#include "passes/sharding_solver.h"

namespace asyra {

// Error: an axis of more than one device that shards no factor of any op; says
// what it was for.
absl::Status CheckEveryAxisIsUsed(const Program& program,
                                  const AxisRoles& roles,
                                  const PricedPlan& plan);

// One remark for all ops that are alike.
void RemarkUndivided(const Program& program, const AxisRoles& roles,
                     const PricedPlan& plan, PassContext& context);

}  // namespace asyra
