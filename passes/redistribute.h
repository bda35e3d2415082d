// From one distribution of a value to another by collectives.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/attr.h"
#include "ir/type.h"
#include "passes/plan_sharding.h"

namespace asyra {

struct RedistributeStep {
  std::string_view op;  // all_gather, shard, all_to_all, ...
  AttrMap attrs;
  Type type;  // after the step
};

struct Redistribution {
  std::vector<RedistributeStep> steps;
  double us = 0;
};

// The cheapest sequence, by shortest path over distributions. `from` and `to`
// differ in distribution only; `to` may be partial only over axes `from` is.
// Error when there is none: a whole value cannot become partial.
absl::StatusOr<Redistribution> Redistribute(const Type& from, const Type& to,
                                            const Mesh& mesh,
                                            const PlanPrices& prices);

}  // namespace asyra
