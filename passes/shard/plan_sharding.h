// Chooses how each op is sharded over the mesh, by cost.
//
// The plan is a labelling of the graph: for each op, which mesh axes shard
// which factor of its axis rule. Its cost is the time of every op on its
// shards, plus the redistributions between producers and consumers
// (redistribute.h), each with all axes of both sides together. A dynamic
// program over the ops (sharding_solver.h) decides one axis after the other,
// model axes before data axes; then every two axes together, given the others,
// until nothing improves.
//
// A training step is planned in three parts: forward, with the costs of its
// gradients; backward; updates (plan_step.h).
//
// axis_roles.h says what an axis may shard, and what it must shard where sizes
// allow.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/shard/sharding_plan.h"

namespace asyra {

// Plans a program of stage global with a mesh. Remarks name the ops that an
// axis could not divide, and why. Errors: an axis that can shard nothing, pins
// under which an op cannot be computed.
absl::StatusOr<ShardingPlan> PlanSharding(const Program& program,
                                          const PlanOptions& options,
                                          PassContext& context);

}  // namespace asyra
