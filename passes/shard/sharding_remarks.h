// Remarks on a plan: ops that an axis could not divide, keys and values that
// are gathered because heads do not divide.
#pragma once

#include "passes/pass.h"
#include "passes/shard/axis_roles.h"
#include "passes/shard/sharding_solver.h"

namespace asyra {

// Gives one remark for all ops that are identical.
void RemarkUndivided(const Program& program, const AxisRoles& roles,
                     const CostedPlan& plan, PassContext& context);

}  // namespace asyra
