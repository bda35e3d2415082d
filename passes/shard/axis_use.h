// Whether each mesh axis does what it was asked for.
#pragma once

#include "absl/status/status.h"
#include "passes/pass.h"
#include "passes/shard/axis_roles.h"
#include "passes/shard/plan_sharding.h"
#include "passes/shard/sharding_solver.h"

namespace asyra {

// Axes of more than one device that shard no factor of any op.
AxisList UnusedAxes(const Mesh& mesh, const CostedPlan& plan);

// Error where there is one: what it is for, and each dimension of the inputs
// that was considered, with its size and why it is no use.
absl::Status CheckEveryAxisIsUsed(const Program& program,
                                  const AxisRoles& roles,
                                  const CostedPlan& plan);

// Error: an axis that was asked to shard experts and shards none of them; says
// how many there are over how many devices. Where pins may be the reason, or
// the model has no experts, it is a remark.
absl::Status CheckExperts(const Program& program, const AxisRoles& roles,
                          const CostedPlan& plan, const Pins& pins,
                          PassContext& context);

// Says what axes cost that the plan `without` had no use for, and `plan` uses
// because they were asked for.
void RemarkCostOfUse(const Program& program, const CostedPlan& without,
                     const CostedPlan& plan, PassContext& context);

}  // namespace asyra
