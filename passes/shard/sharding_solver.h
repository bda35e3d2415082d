// The dynamic program of plan_sharding.h: decides some mesh axes for a whole
// program, given the others.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "ir/support/random.h"
#include "passes/analysis/periods.h"
#include "passes/shard/conversion_costs.h"
#include "passes/shard/sharding_choices.h"

namespace asyra {

// The available distributions, by value; empty if they are not known.
using Forms = std::vector<std::vector<Type>>;

// A whole plan and its cost.
struct CostedPlan {
  std::vector<OpSharding> ops;  // by op
  std::vector<Type> inputs;     // by program input
  Forms forms;                  // of what the ops read and make
  Pins pins;                    // of the program's values; may be empty
  // ShardingPlan has them.
  std::vector<bool> again;
  int again_from = 0;
  int zero = 0;
  int64_t ns = 0;

  // Returns whether the axis shards a factor of some op.
  bool Uses(AxisId axis) const;
};

// Forward over the ops. A state has the distributions available of every value
// that will still be read (the frontier), and the lowest cost to reach it.
// Costs of redistributions are exact: types carry all axes decided so far.
// A state is dropped where the cheapest one reaches all that it holds for less,
// conversions included. Beyond `beam` states those of highest cost are dropped;
// otherwise the result is optimal, as long as no way between two distributions
// is cheaper over a third.
//
// Where the program repeats and the states at the end of a layer equal those at
// its beginning except for a constant in every cost, the decisions of that
// layer are copied to all equal ones that follow.
//
// Inputs may be fixed: what was decided before, in another part of a training
// step. Each is available in its given forms, which are no part of the
// frontier: readers convert from the nearest one, each for itself.
class ShardingSolver {
 public:
  // All but `fixed` must outlive it.
  ShardingSolver(const Program& program, const AxisRoles& roles,
                 const PlanOptions& options, const Forms& fixed,
                 RedistributionCosts& types);

  // Decides the axes of `open`, with the others as in `plan`; undecided axes
  // shard nothing there.
  // Error: pins under which an op cannot be computed.
  absl::StatusOr<CostedPlan> Solve(const CostedPlan& plan, const AxisList& open,
                                   const AxisList& decided);

 private:
  // A value on the frontier in one distribution; sorted. Frontiers are long
  // where many values wait for one op, and copied for each candidate: it is
  // trivially copyable, which a pair is not.
  struct Held {
    ValueId value;
    TypeId form;
    friend auto operator<=>(const Held&, const Held&) = default;
    uint64_t Hash() const {
      return SplitMix(static_cast<uint32_t>(value),
                      static_cast<uint32_t>(form));
    }
  };
  using Frontier = std::vector<Held>;
  struct State {
    // Returns all forms of the value.
    absl::Span<const Held> Find(ValueId value) const;

    Frontier frontier;
    uint64_t hash = 0;  // a sum over the frontier
    int64_t ns = 0;
  };
  // Changes of a frontier, sorted, not copied until they are known to be kept.
  struct Edit {
    absl::InlinedVector<Held, 8> added;
    absl::InlinedVector<ValueId, 4> dropped;
  };
  // The way to a state: the state before, the choice, and by operand the types
  // of program inputs that are first read here.
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
  using TypeIds = absl::InlinedVector<TypeId, 4>;
  // An operand in a state: its forms, and what others cost from these.
  struct Read {
    TypeIds forms;
    bool depends = false;  // its cost does, on more than the form needed
    absl::InlinedVector<std::pair<TypeId, int64_t>, 8> ns;
  };
  using Reads = absl::InlinedVector<Read, 4>;

  absl::Status Step(int i, const CostedPlan& plan);
  void Extend(int i, const State& state, int from, const Choices& choices,
              absl::Span<const int64_t> result_ns, std::vector<Candidate>* out);
  Reads ReadsOf(int i, const State& state) const;
  int64_t ReadNs(int i, Reads& reads, const Choice& choice, uint32_t whole);
  int64_t ReadNs(ValueId value, Read& read, TypeId need);
  int64_t ResultNs(int i, const Choice& choice);
  bool IsDominated(const State& state, const State& other);
  Edit Follow(int i, const State& from, const Choice& choice, uint32_t whole,
              Back* back);
  static void Apply(const Edit& edit, const State& from, State* to);
  TypeIds FormsOf(const State& state, ValueId value) const;
  bool IsFixed(ValueId value) const { return !fixed_ids_[value].empty(); }
  // Returns the form in which operand k, read here first, is given.
  TypeId GivenForm(int i, size_t k, const Choice& choice, uint32_t whole);
  std::optional<TypeId> PinnedForm(ValueId value);
  // Returns the type without axes that are not yet decided.
  TypeId OverDecided(Type type);
  int64_t OutputNs(ValueId value, const TypeIds& have);
  bool Dies(ValueId value, int i) const { return last_use_[value] <= i; }

  // Skips the repetitions that follow op `next`; returns the op to continue
  // with.
  int Stamp(int next, const CostedPlan& plan);
  bool SameChoices(int begin, int end, int period, const CostedPlan& plan);
  void StampOnce(int begin, int p, absl::Span<const int> origins,
                 absl::Span<const int64_t> added);
  bool SameStates(const std::vector<State>& before, int begin, int p) const;
  std::vector<int> OriginsOf(int begin, int end) const;
  bool Repeats(const std::vector<State>& before, int begin, int p,
               absl::Span<const int> origins) const;

  CostedPlan Trace() const;
  void AddForms(int i, const Choice& choice, Forms* forms) const;

  const Program& program_;
  const AxisRoles& roles_;
  const PlanOptions& options_;
  RedistributionCosts& types_;
  const Forms fixed_;  // by value; may be empty
  std::vector<TypeIds> fixed_ids_;
  std::vector<TypeIds> given_;  // the same over the axes decided so far
  ShardingChoices choices_;
  ConversionCosts conversions_;
  Periods periods_;
  std::vector<int> last_use_;    // by value: op, -1
  std::vector<bool> is_input_;   // by value
  std::vector<bool> is_output_;  // by value
  std::vector<ValueId> alias_;   // by value: the fixed state it replaces

  AxisList open_, decided_;
  std::vector<State> states_;                         // before the next op
  std::vector<std::vector<State>> states_before_;     // by op; empty if stamped
  std::vector<std::shared_ptr<const Layer>> layers_;  // by op
};

}  // namespace asyra
