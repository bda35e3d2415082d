// Redistributes a value by collectives.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "ir/attr.h"
#include "ir/type.h"
#include "passes/shard/plan_costs.h"

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

// Returns the sequence of lowest cost, by shortest path over distributions.
// `from` and `to` differ in distribution only; `to` may be partial only over
// axes `from` is. Error when there is none: a whole value cannot become
// partial.
absl::StatusOr<Redistribution> Redistribute(const Type& from, const Type& to,
                                            const Mesh& mesh,
                                            const PlanCosts& costs);

// A distributed type as an index into a table.
using TypeId = int32_t;

// Costs of redistributions, each computed once; types go by number.
class RedistributionCosts {
 public:
  // Both must outlive this.
  RedistributionCosts(const Mesh& mesh, const PlanCosts& costs)
      : mesh_(mesh), costs_(costs) {}

  // Whole nanoseconds, so that sums do not depend on their order. An infeasible
  // step costs more than any sum of others.
  static constexpr int64_t kInfeasible = int64_t{1} << 60;

  TypeId Id(const Type& type);
  const Type& type(TypeId id) const { return types_[id]; }
  int64_t Ns(TypeId from, TypeId to);

 private:
  const Mesh& mesh_;
  const PlanCosts& costs_;
  std::vector<Type> types_;
  absl::flat_hash_map<std::string, TypeId> ids_;
  absl::flat_hash_map<std::pair<TypeId, TypeId>, int64_t> ns_;
};

}  // namespace asyra
