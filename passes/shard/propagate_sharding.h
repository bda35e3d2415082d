// Shardings that follow from given ones, without costs: from seeds (weights,
// inputs, any values) forward and backward through axis rules to a fixed
// point. The other way to a plan beside plan_sharding: what the user seeds
// decides all, as in GSPMD (Xu et al. 2021, section 3.5) and Shardy.
//
// In an op, a factor takes the longest list of axes that one of its values
// has. Values disagree where none of two lists begins with the other, or where
// one axis shards two factors; then, in this order, what is seeded wins, a
// parallel factor over a sum, the larger value, the earlier one. What loses is
// redistributed there by partition.
//
// Ops that hand every dimension on (elementwise) propagate first, then those
// that only move data, then all others, so that a matmul takes the sharding
// of its surroundings and does not impose one.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/shard/plan_sharding.h"

namespace asyra {

struct ShardingConflict {
  int op = 0;
  std::string text;  // names op, factor, and the two sides
};

struct Propagation {
  ShardingPlan plan;
  std::vector<ShardingConflict> conflicts;  // by op, ascending
};

// Of a program of stage global with a mesh. Seeds stay as they are; without a
// seed everything is whole.
absl::StatusOr<Propagation> PropagateSharding(const Program& program,
                                              const Pins& seeds);

}  // namespace asyra
