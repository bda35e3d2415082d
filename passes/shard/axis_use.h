// Checks that each mesh axis shards what it was requested for.
#pragma once

#include "absl/status/status.h"
#include "passes/pass.h"
#include "passes/shard/axis_roles.h"
#include "passes/shard/sharding_plan.h"
#include "passes/shard/sharding_solver.h"

namespace asyra {

// Axes of more than one device that shard no factor of any op.
AxisList UnusedAxes(const Mesh& mesh, const CostedPlan& plan);

// Error if there is one: the role of the axis, and each dimension of the inputs
// that was considered, with its size and why the axis cannot shard it.
absl::Status CheckEveryAxisIsUsed(const Program& program,
                                  const AxisRoles& roles,
                                  const CostedPlan& plan);

// Error: an axis for experts in a model that has none; one that shards none of
// them, with the numbers of experts and devices. If pins may be the reason for
// the latter, it is a remark.
absl::Status CheckExperts(const Program& program, const AxisRoles& roles,
                          const CostedPlan& plan, const Pins& pins,
                          PassContext& context);

// Remarks on the cost of axes that the plan `without` does not use and `plan`
// uses because they were requested.
void RemarkCostOfUse(const Program& program, const CostedPlan& without,
                     const CostedPlan& plan, PassContext& context);

}  // namespace asyra
