// Shardings that follow from given ones, without costs: from seeds (weights,
// inputs, any values) forward and backward through axis rules to a fixed
// point. The alternative to plan_sharding: the user's seeds decide everything,
// as in GSPMD (Xu et al. 2021, section 3.5) and Shardy.
//
// In an op, a factor gets the longest list of axes that one of its values has.
// There is a conflict if neither of two lists is a prefix of the other, or if
// one axis shards two factors. Then, in this order, a seeded value wins, a
// parallel factor over a reduction, the larger value, the earlier one.
// Partition redistributes the others there.
//
// Ops that keep every dimension (elementwise) propagate first, then ops that
// only move data, then all others, so that a matmul takes the sharding of its
// neighbours and does not impose one.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/shard/sharding_plan.h"

namespace asyra {

struct ShardingConflict {
  int op = 0;
  std::string text;  // names op, factor, and the two sides
};

struct Propagation {
  ShardingPlan plan;
  std::vector<ShardingConflict> conflicts;  // by op, ascending
};

// Propagates in a program of stage global with a mesh. Seeds are never changed;
// without a seed everything is whole.
absl::StatusOr<Propagation> PropagateSharding(const Program& program,
                                              const Pins& seeds);

}  // namespace asyra
