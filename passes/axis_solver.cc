#include "passes/axis_solver.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "ir/printer.h"
#include "ir/support/status.h"

namespace asyra {

AxisSolver::AxisSolver(const Program& program, const DimLabels& labels,
                       AxisId axis, const PlanOptions& options,
                       const ShardingPlan& plan)
    : program_(program),
      axis_(axis),
      options_(options),
      choices_(program, labels, axis, options, plan),
      last_use_(program.values.size(), -1),
      is_free_(program.values.size(), false) {
  for (const Input& input : program.inputs) is_free_[input.value] = true;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (ValueId value : program.ops[i].operands) {
      last_use_[value] = static_cast<int>(i);
    }
  }
  for (const Output& output : program.outputs) {
    last_use_[output.value] = static_cast<int>(program.ops.size());
  }
}

absl::StatusOr<AxisSolver::Solution> AxisSolver::Solve() {
  Layer start;
  start.states.push_back({});
  layers_.push_back(std::move(start));
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    ASYRA_RETURN_IF_ERROR(Step(static_cast<int>(i)));
  }
  return Trace();
}

Forms AxisSolver::Find(const Frontier& frontier, ValueId value) {
  for (const Held& held : frontier) {
    if (held.value == value) return held.forms;
  }
  return 0;
}
void AxisSolver::Put(Frontier* frontier, ValueId value, Forms forms) {
  auto at = frontier->begin();
  while (at != frontier->end() && at->value < value) ++at;
  if (at != frontier->end() && at->value == value) {
    at->forms |= forms;
  } else {
    frontier->insert(at, {value, forms});
  }
}

// How the value must lie on this axis.
std::optional<Form> AxisSolver::PinnedForm(ValueId value) const {
  const Type* pin = PinOf(options_.pins, value);
  if (pin == nullptr) return std::nullopt;
  for (int d = 0; d < pin->rank(); ++d) {
    if (Contains(pin->dims[d].axes, axis_)) return ShardedOn(d);
  }
  return kWhole;
}

// Puts a result on the frontier, as it is pinned where it is. False where it
// cannot be brought into that form.
bool AxisSolver::Define(ValueId value, Form form, State* state) const {
  if (std::optional<Form> pin = PinnedForm(value); pin.has_value()) {
    state->us += choices_.ConvertUs(
        Bit(form), *pin, static_cast<double>(program_.type(value).bytes()));
    if (state->us == std::numeric_limits<double>::infinity()) return false;
    form = *pin;
  }
  Put(&state->frontier, value, Bit(form));
  return true;
}

// Extends a state by op i under a choice, once for each form in which
// inputs that are read here first may be given.
void AxisSolver::Extend(int i, const State& from, int from_index,
                        const Choice& choice, int choice_index,
                        const std::vector<double>& bytes,
                        std::vector<State>* out) const {
  const Op& op = program_.ops[i];
  std::vector<State> open = {
      State{from.frontier, from.us + choice.us, from_index, choice_index, {}}};
  for (size_t k = 0; k < op.operands.size(); ++k) {
    ValueId value = op.operands[k];
    Form need = choice.operands[k];
    std::vector<State> next;
    for (State& state : open) {
      Forms have = Find(state.frontier, value);
      std::optional<Form> pin = PinnedForm(value);
      if (have == 0 && pin.has_value()) {
        have = Bit(*pin);
        Put(&state.frontier, value, have);
        state.inputs.push_back({value, *pin});
      }
      if (have == 0 && is_free_[value]) {
        // An input comes in any form for nothing; whole as well, when it
        // will be read again and may be wanted otherwise.
        if (need == kPartial) continue;
        State given = state;
        Put(&given.frontier, value, Bit(need));
        given.inputs.push_back({value, need});
        next.push_back(std::move(given));
        if (need == kWhole || last_use_[value] == i) continue;
        Put(&state.frontier, value, Bit(kWhole) | Bit(need));
        state.us += options_.prices.kernel_us;
        state.inputs.push_back({value, kWhole});
        next.push_back(std::move(state));
        continue;
      }
      double us = choices_.ConvertUs(have, need, bytes[k]);
      if (us == std::numeric_limits<double>::infinity()) continue;
      state.us += us;
      Put(&state.frontier, value, Bit(need));
      next.push_back(std::move(state));
    }
    open = std::move(next);
  }
  for (State& state : open) {
    bool defined = true;
    for (size_t k = 0; k < op.results.size(); ++k) {
      defined &= Define(op.results[k], choice.results[k], &state);
    }
    if (!defined) continue;
    auto dead = std::remove_if(
        state.frontier.begin(), state.frontier.end(),
        [&](const Held& held) { return last_use_[held.value] <= i; });
    state.frontier.erase(dead, state.frontier.end());
    out->push_back(std::move(state));
  }
}

absl::Status AxisSolver::Step(int i) {
  Layer layer;
  layer.choices = choices_.ChoicesOf(i);
  const Op& op = program_.ops[i];
  std::vector<double> bytes;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    bytes.push_back(choices_.WholeBytes(i, k));
  }
  std::vector<State> extended;
  const std::vector<State>& before = layers_.back().states;
  for (size_t s = 0; s < before.size(); ++s) {
    for (size_t c = 0; c < layer.choices.size(); ++c) {
      Extend(i, before[s], static_cast<int>(s), layer.choices[c],
             static_cast<int>(c), bytes, &extended);
    }
  }
  if (extended.empty()) {
    return Invalid("axis {}: under the pins there is no way to compute {}",
                   program_.mesh.name(axis_), ToString(program_, op));
  }
  layer.states = Prune(std::move(extended));
  // Only the last layer's frontiers are read again.
  for (State& state : layers_.back().states) state.frontier = {};
  layers_.push_back(std::move(layer));
  return absl::OkStatus();
}

// One state for each frontier, the cheapest; and no more than the beam.
std::vector<AxisSolver::State> AxisSolver::Prune(
    std::vector<State> states) const {
  std::stable_sort(states.begin(), states.end(),
                   [](const State& a, const State& b) { return a.us < b.us; });
  absl::flat_hash_map<Frontier, bool> seen;
  std::vector<State> kept;
  for (State& state : states) {
    if (kept.size() == static_cast<size_t>(options_.beam)) break;
    if (!seen.emplace(state.frontier, true).second) continue;
    kept.push_back(std::move(state));
  }
  return kept;
}

double AxisSolver::FinishUs(const State& state) const {
  double us = state.us;
  for (const Output& output : program_.outputs) {
    Forms have = Find(state.frontier, output.value);
    // A partial output is reduced at least to shards.
    if (have == Bit(kPartial)) {
      us += choices_.ConvertUs(
          have, ShardedOn(0),
          static_cast<double>(program_.type(output.value).bytes()));
    }
  }
  return us;
}

AxisSolver::Solution AxisSolver::Trace() const {
  Solution solution;
  solution.choices.resize(program_.ops.size());
  absl::flat_hash_map<ValueId, Form> inputs;
  const std::vector<State>& last = layers_.back().states;
  int at = 0;
  for (size_t s = 1; s < last.size(); ++s) {
    if (FinishUs(last[s]) < FinishUs(last[at])) at = static_cast<int>(s);
  }
  for (size_t i = program_.ops.size(); i-- > 0;) {
    const Layer& layer = layers_[i + 1];
    const State& state = layer.states[at];
    solution.choices[i] = layer.choices[state.choice];
    FactorId factor = solution.choices[i].factor;
    solution.used |= factor != kUnused;
    if (factor == kUnused && choices_.MustDivide(static_cast<int>(i))) {
      solution.undivided.push_back(static_cast<int>(i));
    }
    for (auto [value, form] : state.inputs) inputs[value] = form;
    at = state.from;
  }
  for (const Input& input : program_.inputs) {
    auto found = inputs.find(input.value);
    solution.inputs.push_back(found == inputs.end() ? kWhole : found->second);
  }
  return solution;
}

void AxisSolver::Apply(const Solution& solution, ShardingPlan* plan) const {
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    FactorId factor = solution.choices[i].factor;
    if (factor != kUnused) {
      plan->ops[i].factors[factor] =
          choices_.WithAxis(static_cast<int>(i), factor);
    }
    for (size_t k = 0; k < plan->ops[i].partial.size(); ++k) {
      if (solution.choices[i].operands[k] == kPartial) {
        AxisList& partial = plan->ops[i].partial[k];
        partial.push_back(axis_);
        std::sort(partial.begin(), partial.end());
      }
    }
  }
  for (size_t i = 0; i < program_.inputs.size(); ++i) {
    if (solution.inputs[i] == kWhole) continue;
    int dim = solution.inputs[i] - 1;
    const Input& input = program_.inputs[i];
    bool tokens = input.role == InputRole::kData &&
                  program_.type(input.value).rank() >= 2 && dim < 2;
    AxisList& axes = plan->inputs[i].dims[dim].axes;
    axes.push_back(axis_);
    DimLabel label = tokens ? DimLabel::kSequence : DimLabel::kNone;
    std::stable_sort(axes.begin(), axes.end(), [&](AxisId a, AxisId b) {
      return IsHome(RoleOf(program_.mesh.name(a)), label) >
             IsHome(RoleOf(program_.mesh.name(b)), label);
    });
  }
}

}  // namespace asyra
