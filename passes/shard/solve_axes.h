// Decides all axes of a mesh for a program, by the dynamic program of
// sharding_solver.h.
#pragma once

#include "absl/status/statusor.h"
#include "passes/pass.h"
#include "passes/shard/axis_roles.h"
#include "passes/shard/sharding_plan.h"
#include "passes/shard/sharding_solver.h"

namespace asyra {

// One axis after the other, model axes before data axes, then by twos.
// `fixed`: see ShardingSolver.
absl::StatusOr<CostedPlan> SolveAxes(const Program& program,
                                     const AxisRoles& roles,
                                     const PlanOptions& options,
                                     const Forms& fixed = {});

// The same, with every axis in use: where one has none, `roles` insist on it.
// Errors and remarks as of PlanSharding.
absl::StatusOr<CostedPlan> SolveWithEveryAxis(const Program& program,
                                              const PlanOptions& options,
                                              AxisRoles* roles,
                                              PassContext& context);

}  // namespace asyra
