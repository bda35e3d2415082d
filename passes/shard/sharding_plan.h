// The plan of a program: how each op is sharded, and what is known before it is
// made (plan_sharding.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/axis_rule.h"
#include "ir/dim_names.h"
#include "ir/program.h"
#include "passes/shard/axis_roles.h"
#include "passes/shard/pins.h"
#include "passes/shard/plan_costs.h"

namespace asyra {

struct OpSharding {
  FactorAxes factors;             // axes of each factor of the op's rule
  std::vector<AxisList> partial;  // by operand: axes it stays partial over

  bool Shards(AxisId axis) const;
};

struct ShardingPlan {
  std::vector<OpSharding> ops;  // by op
  std::vector<Type> inputs;     // by program input
  Pins pins;                    // values that every reader finds as pinned
  // Flags by value, or empty. True: ops from `again_from` on find it only as it
  // was made or given, although others had it in another form before:
  // parameters that are not kept whole until backward.
  std::vector<bool> again;
  int again_from = 0;
  int zero = 0;  // of a training step, the level of ZeRO (passes/shard/zero.h)
  // Estimate of plan_sharding: the sum over all ops; of a training step with
  // backward as PlanOptions::with_gradients counts it.
  double us = 0;
};

struct PlanOptions {
  PlanCosts costs;
  int beam = 512;
  Pins pins;             // of the program's values; may be empty
  AxisList expert_axes;  // shard experts in addition to their role by name
  TpStrategy tp_strategy = TpStrategy::kAny;
  EpStrategy ep_strategy = EpStrategy::kAllToAll;
  DimNames dim_names;  // of the inputs; may be empty
  // The level of ZeRO (zero.h); none: by memory and cost.
  std::optional<int> zero = 0;
  // Memory of a device, for such a choice. 0: no limit; none: the machine's.
  std::optional<int64_t> memory_bytes;
  // The program is a part of a training step. Norms that are replicated under
  // tp are then so in backward too, where costs of ops not yet fused would
  // divide them along the features.
  bool training = false;
  // Costs are those of the ops and of their gradients.
  bool with_gradients = false;
};

}  // namespace asyra
