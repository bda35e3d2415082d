// The ways to shard one op, and the cost of each: the moves of the dynamic
// program in sharding_solver.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "passes/shard/axis_roles.h"
#include "passes/shard/redistribute.h"
#include "passes/shard/sharding_plan.h"

namespace asyra {

struct Choice {
  OpSharding sharding;
  absl::InlinedVector<TypeId, 4> operands;  // in which it takes them
  absl::InlinedVector<TypeId, 2> results;   // that it leaves
  int64_t ns = 0;                           // of the op itself
};
using Choices = std::vector<Choice>;

class ShardingChoices {
 public:
  // All must outlive it. `fixed` by value: the available forms of inputs that
  // were decided before, empty for others.
  ShardingChoices(const Program& program, const AxisRoles& roles,
                  const PlanOptions& options,
                  const std::vector<absl::InlinedVector<TypeId, 4>>& fixed,
                  RedistributionCosts& types);

  // Returns a class by op: equal for ops with the same choices under equal
  // plans.
  const std::vector<int>& classes() const { return classes_; }

  // Returns all choices of op i for the axes of `open`, with the other axes as
  // in the plan; never empty. Limited to the choices that fulfil most of what
  // the axes must shard.
  std::shared_ptr<const Choices> Of(int i, const AxisList& open,
                                    const OpSharding& planned);

 private:
  // Use of one axis in an op: it shards a factor, an operand stays partial over
  // it, or neither.
  struct Use {
    enum Kind : uint8_t { kNothing, kShards, kPartial } kind = kNothing;
    int index = 0;  // factor; operand, or -1 for all
  };

  int ClassOf(int i);
  std::vector<Use> UsesOf(int i, AxisId axis) const;
  // Adds the choices of these uses that are possible and new, with the axes of
  // a dimension in each order (AxisRoles::Ordered).
  void Add(int i, const AxisList& open, const std::vector<Use>& uses,
           OpSharding sharding, Choices* choices, std::vector<int>* asked);
  bool AddNew(int i, Choice choice, Choices* choices);
  bool Complete(int i, Choice* choice);
  Choices Enumerate(int i, const AxisList& open, const OpSharding& base);

  const Program& program_;
  const AxisRoles& roles_;
  const PlanOptions& options_;
  const std::vector<absl::InlinedVector<TypeId, 4>>& fixed_;
  RedistributionCosts& types_;
  std::vector<int> classes_;
  absl::flat_hash_map<std::string, int> class_ids_;
  absl::flat_hash_map<std::string, std::shared_ptr<const Choices>> known_;
};

}  // namespace asyra
