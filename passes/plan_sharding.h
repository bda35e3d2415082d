// Chooses how each op is sharded over each mesh axis, by cost.
//
// Axes are decided one after the other, model axes first. For one axis, a
// value is whole, sharded along a dimension, or partial; an op leaves the axis
// unused or gives it to one of its factors. The plan is the cheapest labelling
// of the graph: compute time of every op on its shards, plus the collectives
// between what producers leave and consumers need. It is found by a dynamic
// program over the ops in order, whose state is the form of every value that
// is still to be read (the frontier); beyond `beam` states the dearest are
// dropped, below it the result is exact. The residual stream keeps frontiers
// of transformers small.
//
// What an axis may shard follows from its role, and the role from its name:
//   dp        what descends from dimension 0 of the data inputs (the batch)
//   sp        not the batch, and no weight matrix
//   tp, ep    not the batch
//   others    anything
// and an op that contracts or indexes a weight matrix must, where sizes allow,
// be divided as the axis was asked for: along batch, sequence, or weight.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/axis_rule.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/pins.h"

namespace asyra {

struct OpSharding {
  FactorAxes factors;             // axes of each factor of the op's rule
  std::vector<AxisList> partial;  // by operand: axes it stays partial over
};

struct ShardingPlan {
  std::vector<OpSharding> ops;  // by op
  std::vector<Type> inputs;     // by program input
  Pins pins;                    // values that every reader finds as pinned
};

// What the plan weighs, as rates; from a machine where one is given.
struct PlanPrices {
  struct Link {
    double latency_us = 10;       // of one collective
    double bytes_per_us = 300e3;  // out of one device
  };
  std::vector<Link> links;  // by mesh axis; the default where it ends
  // The slowest link over these axes.
  Link Over(const AxisList& axes) const;

  double flops_per_us = 600e6;
  double memory_bytes_per_us = 4e6;
  double kernel_us = 2;
};

// Rates of a machine, each link sampled along its mesh axis; the defaults when
// there is none.
PlanPrices PricesFrom(const CostModel* costs);

struct PlanOptions {
  PlanPrices prices;
  int beam = 512;
  Pins pins;  // of the program's values; may be empty
};

// Of a program of stage global with a mesh. Remarks name the ops that an axis
// could not divide, and why. Errors: an axis that can shard nothing, pins under
// which an op cannot be computed.
absl::StatusOr<ShardingPlan> PlanSharding(const Program& program,
                                          const PlanOptions& options,
                                          PassContext& context);

}  // namespace asyra
