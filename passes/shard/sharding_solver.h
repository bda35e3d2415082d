// The dynamic program of plan_sharding.h: decides some mesh axes for a whole
// program, given the others.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "passes/analysis/periods.h"
#include "passes/shard/sharding_choices.h"

namespace asyra {

// A whole plan and its cost.
struct CostedPlan {
  std::vector<OpSharding> ops;  // by op
  std::vector<Type> inputs;     // by program input
  int64_t ns = 0;

  // Whether it shards a factor of some op.
  bool Uses(AxisId axis) const;
};

// Forward over the ops, a state being the forms in which every value is at
// hand that will still be read (the frontier), and the least it costs to get
// there. Costs of redistributions are exact: types carry all axes decided so
// far. Beyond `beam` states those of highest cost are dropped; below it the
// result is the best there is.
//
// Where the program repeats and the states at the end of a layer are those at
// its begin, but for a constant in every cost, the decisions of that layer
// hold for all equal ones that follow, and none of them is computed again.
class ShardingSolver {
 public:
  // All must outlive it.
  ShardingSolver(const Program& program, const AxisRoles& roles,
                 const PlanOptions& options, RedistributionCosts& types);

  // Decides the axes of `open`; others as in `plan`, in which axes that were
  // not decided yet shard nothing.
  // Error: pins under which an op cannot be computed.
  absl::StatusOr<CostedPlan> Solve(const CostedPlan& plan, const AxisList& open,
                                   const AxisList& decided);

 private:
  // A value on the frontier in one form; sorted.
  using Held = std::pair<ValueId, TypeId>;
  using Frontier = absl::InlinedVector<Held, 8>;
  struct State {
    Frontier frontier;
    int64_t ns = 0;
  };
  // How a state was reached: from a state of the layer before, by a choice,
  // giving program inputs that are read here first, by operand, these types.
  struct Back {
    int from = -1;
    int choice = -1;
    absl::InlinedVector<std::pair<int, TypeId>, 1> given;
  };
  struct Layer {
    std::shared_ptr<const Choices> choices;
    std::vector<Back> backs;  // by state
  };
  // A step from a state, before its frontier is made.
  struct Candidate {
    int64_t ns;
    int from, choice;
    uint32_t whole;  // of the inputs read first, those given whole
  };
  using Forms = absl::InlinedVector<TypeId, 4>;

  absl::Status Step(int i, const CostedPlan& plan);
  void Extend(int i, const State& state, int from, const Choices& choices,
              std::vector<Candidate>* out);
  int64_t ReadNs(int i, const State& state, const Choice& choice,
                 uint32_t whole);
  State Follow(int i, const State& from, const Choice& choice, uint32_t whole,
               Back* back);
  Forms FormsOf(const State& state, ValueId value) const;
  // From the nearest of `have`.
  int64_t ConvertNs(ValueId value, const Forms& have, TypeId need);
  bool Avoided(ValueId value, TypeId have, TypeId need) const;
  // The form in which operand k, read here first, is given.
  TypeId GivenForm(int i, size_t k, const Choice& choice, uint32_t whole);
  std::optional<TypeId> PinnedForm(ValueId value);
  int64_t OutputNs(const Forms& have);
  bool Dies(ValueId value, int i) const { return last_use_[value] <= i; }

  // Skips as many repetitions as follow op `next`; the op to go on with.
  int Stamp(int next, const CostedPlan& plan);
  bool SameChoices(int begin, int end, int period, const CostedPlan& plan);
  bool Repeat(const std::vector<State>& before, int begin, int p) const;

  CostedPlan Trace() const;

  const Program& program_;
  const AxisRoles& roles_;
  const PlanOptions& options_;
  RedistributionCosts& types_;
  ShardingChoices choices_;
  Periods periods_;
  std::vector<int> last_use_;    // by value: op, -1
  std::vector<bool> is_input_;   // by value
  std::vector<bool> is_output_;  // by value

  AxisList open_, decided_;
  std::vector<State> states_;                         // before the next op
  std::vector<std::vector<State>> states_before_;     // by op; empty if stamped
  std::vector<std::shared_ptr<const Layer>> layers_;  // by op
};

}  // namespace asyra
