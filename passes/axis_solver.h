// Decides one mesh axis for a whole program: the frontier dynamic program of
// plan_sharding.h.
#pragma once

#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "passes/axis_choices.h"

namespace asyra {

class AxisSolver {
 public:
  // Given the axes decided before. The arguments must outlive the solver.
  AxisSolver(const Program& program, const DimLabels& labels, AxisId axis,
             const PlanOptions& options, const ShardingPlan& plan);

  struct Solution {
    std::vector<Choice> choices;  // by op
    std::vector<Form> inputs;     // by program input
    std::vector<int> undivided;   // ops it was asked to divide, and could not
    bool used = false;
  };
  // Error: pins under which an op cannot be computed.
  absl::StatusOr<Solution> Solve();

  // Enters a solution into the plan.
  void Apply(const Solution& solution, ShardingPlan* plan) const;

 private:
  // A value on the frontier and its forms; sorted by value.
  struct Held {
    ValueId value;
    Forms forms;
    friend bool operator==(const Held& a, const Held& b) {
      return a.value == b.value && a.forms == b.forms;
    }
    template <typename H>
    friend H AbslHashValue(H h, const Held& held) {
      return H::combine(std::move(h), held.value, held.forms);
    }
  };
  using Frontier = absl::InlinedVector<Held, 8>;

  struct State {
    Frontier frontier;
    double us = 0;
    int from = -1;    // state of the layer before
    int choice = -1;  // of the op that led here
    // Forms given to program inputs that this op read first.
    absl::InlinedVector<std::pair<ValueId, Form>, 1> inputs;
  };
  struct Layer {
    std::vector<State> states;
    std::vector<Choice> choices;
  };

  static Forms Find(const Frontier& frontier, ValueId value);
  static void Put(Frontier* frontier, ValueId value, Forms forms);
  void Extend(int i, const State& from, int from_index, const Choice& choice,
              int choice_index, const std::vector<double>& bytes,
              std::vector<State>* out) const;
  absl::Status Step(int i);
  std::optional<Form> PinnedForm(ValueId value) const;
  bool Define(ValueId value, Form form, State* state) const;
  std::vector<State> Prune(std::vector<State> states) const;
  double FinishUs(const State& state) const;
  Solution Trace() const;

  const Program& program_;
  const AxisId axis_;
  const PlanOptions& options_;
  const AxisChoices choices_;
  std::vector<int> last_use_;  // by value: op; ops.size() for outputs
  std::vector<bool> is_free_;  // by value: program inputs
  std::vector<Layer> layers_;
};

}  // namespace asyra
