// Turns a program of one logical device into that of each device of the mesh.
//
//   %y = matmul(%x, %w) : f32[8, 64]
// under a plan that shards the contraction over tp becomes
//   %y = matmul(%x, %w) : f32[8, 64] partial(tp)
//   %y.all_reduce = all_reduce(%y) {axes=tp} : f32[8, 64]
//
// Shapes stay global, so no attribute changes. Each operand is redistributed as
// the plan requires, by the sequence of collectives of lowest cost from any
// distribution that the value already has. Each distribution is made once:
// three matmuls that read one gathered value share the all_gather.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/shard/sharding_plan.h"

namespace asyra {

absl::StatusOr<Program> Partition(const Program& program,
                                  const ShardingPlan& plan,
                                  const PlanCosts& costs);

}  // namespace asyra
