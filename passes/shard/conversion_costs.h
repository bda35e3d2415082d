// Cost to the solver of having a value in another distribution: the collectives
// between the two, in training with those of its gradient, and what the
// strategies of plan_sharding.h avoid.
#pragma once

#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "passes/shard/axis_roles.h"
#include "passes/shard/redistribute.h"
#include "passes/shard/sharding_plan.h"

namespace asyra {

class ConversionCosts {
 public:
  // All must outlive it.
  ConversionCosts(const Program& program, const AxisRoles& roles,
                  const PlanOptions& options, RedistributionCosts& types)
      : program_(program), roles_(roles), options_(options), types_(types) {}

  // Returns the cost from the nearest of `have`. An avoided conversion costs
  // more than any sum of others, less than an infeasible one.
  int64_t Ns(ValueId value, absl::Span<const TypeId> have, TypeId need);

 private:
  bool Spreads(ValueId value, TypeId have, TypeId need) const;
  bool Avoided(ValueId value, TypeId have, TypeId need) const;
  // Returns the cost from one form of the value to another.
  int64_t FormNs(ValueId value, TypeId have, TypeId need);
  // Return the cost with that of the gradient where that counts.
  int64_t RedistributeNs(TypeId have, TypeId need);
  int64_t WithGradientNs(TypeId have, TypeId need);

  const Program& program_;
  const AxisRoles& roles_;
  const PlanOptions& options_;
  RedistributionCosts& types_;
  // Each is asked for by many states of the solver.
  absl::flat_hash_map<std::tuple<ValueId, TypeId, TypeId>, int64_t> form_ns_;
  absl::flat_hash_map<std::pair<TypeId, TypeId>, int64_t> redistribute_ns_;
};

}  // namespace asyra
