#include "passes/plan_sharding.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "passes/axis_roles.h"
#include "passes/dim_labels.h"
#include "simulator/cost_model.h"

namespace asyra {
namespace {

// How a value lies on one axis: whole, sharded along a dimension, or partial.
using Form = uint8_t;
constexpr Form kWhole = 0;
constexpr Form kPartial = 15;
Form ShardedOn(int dim) { return static_cast<Form>(1 + dim); }
// The forms in which a value is at hand, as a bit set.
using Forms = uint16_t;
Forms Bit(Form form) { return static_cast<Forms>(1u << form); }

constexpr FactorId kUnused = -1;

// One way an op may use the axis.
struct Choice {
  FactorId factor = kUnused;
  std::vector<Form> operands;
  std::vector<Form> results;
  double us = 0;  // of the op itself
};

// Solves one axis, given the axes decided before.
class AxisSolver {
 public:
  AxisSolver(const Program& program, const DimLabels& labels, AxisId axis,
             const PlanOptions& options, const ShardingPlan& plan)
      : program_(program),
        labels_(labels),
        axis_(axis),
        role_(RoleOf(program.mesh.name(axis))),
        size_(program.mesh.size(axis)),
        options_(options),
        plan_(plan),
        last_use_(program.values.size(), -1),
        is_weight_(program.values.size(), false),
        is_free_(program.values.size(), false) {
    for (const Input& input : program.inputs) {
      is_free_[input.value] = true;
      is_weight_[input.value] = input.role == InputRole::kWeight;
    }
    for (size_t i = 0; i < program.ops.size(); ++i) {
      const Op& op = program.ops[i];
      bool of_weights = !op.operands.empty();
      for (ValueId value : op.operands) {
        last_use_[value] = static_cast<int>(i);
        of_weights &= is_weight_[value];
      }
      for (ValueId value : op.results) is_weight_[value] = of_weights;
    }
    for (const Output& output : program.outputs) {
      last_use_[output.value] = static_cast<int>(program.ops.size());
    }
  }

  struct Solution {
    std::vector<Choice> choices;  // by op
    std::vector<Form> inputs;     // by program input
    std::vector<int> undivided;   // ops that contract a weight, not sharded
    bool used = false;
  };

  absl::StatusOr<Solution> Solve() {
    Layer start;
    start.states.push_back({});
    layers_.push_back(std::move(start));
    for (size_t i = 0; i < program_.ops.size(); ++i) Step(static_cast<int>(i));
    return Trace();
  }

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

  // The factor's axes with this one at its place: home axes first.
  AxisList WithAxis(int op, FactorId factor) const {
    AxisList axes = plan_.ops[op].factors[factor];
    axes.push_back(axis_);
    DimLabel label = labels_.factors[op][factor];
    std::stable_sort(axes.begin(), axes.end(), [&](AxisId a, AxisId b) {
      return IsHome(RoleOf(program_.mesh.name(a)), label) >
             IsHome(RoleOf(program_.mesh.name(b)), label);
    });
    return axes;
  }

  bool TouchesWeightMatrix(const Op& op) const {
    return std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
      return is_weight_[v] && program_.type(v).rank() >= 2;
    });
  }

  // Ops that contract or index a weight matrix: there an axis must do what it
  // was asked for, even where the whole op would cost less. A table that is
  // only added is not worth a rule, nor is what has no tokens to divide.
  bool MustDivide(int i) const {
    const Op& op = program_.ops[i];
    const AxisRule& rule = labels_.rules[i];
    bool sums = false, asked_for = false;
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      sums |= rule.factors[f].kind == FactorKind::kSum;
      asked_for |= Divides(i, static_cast<FactorId>(f));
    }
    bool only_weights = !op.results.empty() && is_weight_[op.results[0]];
    return role_ != AxisRole::kFree && sums && asked_for && !only_weights &&
           TouchesWeightMatrix(op);
  }

  // What it was asked for: to divide the weights, or the tokens.
  bool Divides(int i, FactorId factor) const {
    DimLabel label = labels_.factors[i][factor];
    switch (role_) {
      case AxisRole::kBatch:
        return label == DimLabel::kBatch;
      case AxisRole::kSequence:
        return label == DimLabel::kSequence;
      default:
        return InWeightMatrix(i, factor);
    }
  }

  bool InWeightMatrix(int i, FactorId factor) const {
    const Op& op = program_.ops[i];
    for (size_t k = 0; k < op.operands.size(); ++k) {
      if (is_weight_[op.operands[k]] &&
          program_.type(op.operands[k]).rank() >= 2 &&
          labels_.rules[i].UsedByOperand(factor, static_cast<int>(k))) {
        return true;
      }
    }
    return false;
  }

  bool RoleAllows(int i, FactorId factor) const {
    DimLabel label = labels_.factors[i][factor];
    switch (role_) {
      case AxisRole::kBatch:
        return label == DimLabel::kBatch;
      case AxisRole::kSequence:
        // A table of positions is cut with the tokens it belongs to.
        return label == DimLabel::kSequence ||
               (label != DimLabel::kBatch && !InWeightMatrix(i, factor));
      case AxisRole::kModel:
        return label != DimLabel::kBatch;
      case AxisRole::kFree:
        return true;
    }
    return true;
  }

  // Types of operands and results under the plan so far and `axes`; false
  // where a dimension cannot be written that way.
  bool TypesUnder(int i, const FactorAxes& axes, std::vector<Type>* operands,
                  std::vector<Type>* results) const {
    const Op& op = program_.ops[i];
    const AxisRule& rule = labels_.rules[i];
    auto apply = [&](const auto& values, const auto& dims,
                     std::vector<Type>* types) {
      for (size_t k = 0; k < values.size(); ++k) {
        absl::StatusOr<Type> type = ApplyFactorAxes(
            program_.type(values[k]), dims[k], rule, axes, program_.mesh);
        if (!type.ok()) return false;
        types->push_back(*std::move(type));
      }
      return true;
    };
    return apply(op.operands, rule.operands, operands) &&
           apply(op.results, rule.results, results);
  }

  Form FormOf(const OperandFactors& dims, FactorId factor) const {
    for (size_t d = 0; d < dims.size(); ++d) {
      for (FactorId id : dims[d]) {
        if (id == factor) return ShardedOn(static_cast<int>(d));
      }
    }
    return kWhole;
  }

  double OpUs(int i, const std::vector<Type>& operands,
              const std::vector<Type>& results) const {
    const Op& op = program_.ops[i];
    Work work = WorkOf({*op.def, op.attrs, operands, results}, program_.mesh);
    if (op.def->is_view) return 0;
    double flops_per_us = options_.prices.flops_per_us;
    if (!work.matrix) flops_per_us /= 16;  // vector units
    return options_.prices.kernel_us +
           std::max(work.flops / flops_per_us,
                    (work.read_bytes + work.write_bytes) /
                        options_.prices.memory_bytes_per_us);
  }

  void AddChoice(int i, FactorId factor, std::vector<Choice>* choices) const {
    const AxisRule& rule = labels_.rules[i];
    FactorAxes axes = plan_.ops[i].factors;
    if (factor != kUnused) axes[factor] = WithAxis(i, factor);
    std::vector<Type> operands, results;
    if (!TypesUnder(i, axes, &operands, &results)) return;
    Choice choice;
    choice.factor = factor;
    choice.us = OpUs(i, operands, results);
    for (const OperandFactors& dims : rule.operands) {
      choice.operands.push_back(FormOf(dims, factor));
    }
    bool partial =
        factor != kUnused && rule.factors[factor].kind == FactorKind::kSum;
    for (const OperandFactors& dims : rule.results) {
      choice.results.push_back(partial ? kPartial : FormOf(dims, factor));
    }
    choices->push_back(std::move(choice));
  }

  // A linear op lets a partial operand through.
  void AddPartialChoices(int i, std::vector<Choice>* choices) const {
    const AxisRule& rule = labels_.rules[i];
    size_t count = rule.operands.size();
    if (rule.linearity == Linearity::kNone || count == 0) return;
    ASYRA_CHECK((*choices)[0].factor == kUnused);
    Choice whole = (*choices)[0];
    whole.results.assign(whole.results.size(), kPartial);
    if (rule.linearity == Linearity::kJoint) {
      whole.operands.assign(count, kPartial);
      choices->push_back(whole);
      return;
    }
    for (size_t k = 0; k < count; ++k) {
      whole.operands.assign(count, kWhole);
      whole.operands[k] = kPartial;
      choices->push_back(whole);
    }
  }

  std::vector<Choice> ChoicesOf(int i) const {
    const AxisRule& rule = labels_.rules[i];
    std::vector<Choice> choices;
    bool must_divide = MustDivide(i);
    AddChoice(i, kUnused, &choices);
    ASYRA_CHECK(!choices.empty());
    // A constant is made whole on every device, and cut where it is read.
    if (rule.operands.empty()) return choices;
    if (!must_divide) AddPartialChoices(i, &choices);
    size_t divided = choices.size();
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      FactorId factor = static_cast<FactorId>(f);
      if (rule.factors[f].kind == FactorKind::kWhole ||
          rule.factors[f].size % size_ != 0 || !RoleAllows(i, factor) ||
          (must_divide && !Divides(i, factor))) {
        continue;
      }
      AddChoice(i, factor, &choices);
    }
    if (must_divide && choices.size() > divided) {
      choices.erase(choices.begin(), choices.begin() + divided);
    }
    return choices;
  }

  // Bytes a device holds of a value that is whole on this axis.
  double WholeBytes(ValueId value, int op, size_t operand) const {
    std::vector<Type> operands, results;
    if (!TypesUnder(op, plan_.ops[op].factors, &operands, &results)) return 0;
    (void)value;
    return static_cast<double>(operands[operand].Local(program_.mesh).bytes());
  }

  // The cheapest way from one of `have` to `need`; infinite when there is none.
  double ConvertUs(Forms have, Form need, double whole_bytes) const {
    const double none = std::numeric_limits<double>::infinity();
    if (have & Bit(need)) return 0;
    if (need == kPartial) return none;
    double n = static_cast<double>(size_);
    PlanPrices::Link link = options_.prices.Over({axis_});
    double moved = whole_bytes * (n - 1) / n / link.bytes_per_us;
    double latency = link.latency_us;
    double best = none;
    if (have & Bit(kWhole)) {
      best = options_.prices.kernel_us;  // shard
    }
    if (have & Bit(kPartial)) {
      best = std::min(best, latency + (need == kWhole ? 2 * moved : moved));
    }
    if (have & static_cast<Forms>(~(Bit(kWhole) | Bit(kPartial)))) {
      best = std::min(best, latency + (need == kWhole ? moved : moved / n));
    }
    return best;
  }

  static Forms Find(const Frontier& frontier, ValueId value) {
    for (const Held& held : frontier) {
      if (held.value == value) return held.forms;
    }
    return 0;
  }
  static void Put(Frontier* frontier, ValueId value, Forms forms) {
    auto at = frontier->begin();
    while (at != frontier->end() && at->value < value) ++at;
    if (at != frontier->end() && at->value == value) {
      at->forms |= forms;
    } else {
      frontier->insert(at, {value, forms});
    }
  }

  // Extends a state by op i under a choice, once for each form in which
  // inputs that are read here first may be given.
  void Extend(int i, const State& from, int from_index, const Choice& choice,
              int choice_index, const std::vector<double>& bytes,
              std::vector<State>* out) const {
    const Op& op = program_.ops[i];
    std::vector<State> open = {State{
        from.frontier, from.us + choice.us, from_index, choice_index, {}}};
    for (size_t k = 0; k < op.operands.size(); ++k) {
      ValueId value = op.operands[k];
      Form need = choice.operands[k];
      std::vector<State> next;
      for (State& state : open) {
        Forms have = Find(state.frontier, value);
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
        double us = ConvertUs(have, need, bytes[k]);
        if (us == std::numeric_limits<double>::infinity()) continue;
        state.us += us;
        Put(&state.frontier, value, Bit(need));
        next.push_back(std::move(state));
      }
      open = std::move(next);
    }
    for (State& state : open) {
      for (size_t k = 0; k < op.results.size(); ++k) {
        Put(&state.frontier, op.results[k], Bit(choice.results[k]));
      }
      auto dead = std::remove_if(
          state.frontier.begin(), state.frontier.end(),
          [&](const Held& held) { return last_use_[held.value] <= i; });
      state.frontier.erase(dead, state.frontier.end());
      out->push_back(std::move(state));
    }
  }

  void Step(int i) {
    Layer layer;
    layer.choices = ChoicesOf(i);
    const Op& op = program_.ops[i];
    std::vector<double> bytes;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      bytes.push_back(WholeBytes(op.operands[k], i, k));
    }
    std::vector<State> extended;
    const std::vector<State>& before = layers_.back().states;
    for (size_t s = 0; s < before.size(); ++s) {
      for (size_t c = 0; c < layer.choices.size(); ++c) {
        Extend(i, before[s], static_cast<int>(s), layer.choices[c],
               static_cast<int>(c), bytes, &extended);
      }
    }
    ASYRA_CHECK(!extended.empty());
    layer.states = Prune(std::move(extended));
    // Only the last layer's frontiers are read again.
    for (State& state : layers_.back().states) state.frontier = {};
    layers_.push_back(std::move(layer));
  }

  // One state for each frontier, the cheapest; and no more than the beam.
  std::vector<State> Prune(std::vector<State> states) const {
    std::stable_sort(
        states.begin(), states.end(),
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

  double FinishUs(const State& state) const {
    double us = state.us;
    for (const Output& output : program_.outputs) {
      Forms have = Find(state.frontier, output.value);
      // A partial output is reduced at least to shards.
      if (have == Bit(kPartial)) {
        us +=
            ConvertUs(have, ShardedOn(0),
                      static_cast<double>(program_.type(output.value).bytes()));
      }
    }
    return us;
  }

  Solution Trace() const {
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
      if (factor == kUnused && MustDivide(static_cast<int>(i))) {
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

  const Program& program_;
  const DimLabels& labels_;
  const AxisId axis_;
  const AxisRole role_;
  const int64_t size_;
  const PlanOptions& options_;
  const ShardingPlan& plan_;
  std::vector<int> last_use_;    // op; ops.size() for outputs
  std::vector<bool> is_weight_;  // computed from weights alone
  std::vector<bool> is_free_;    // program inputs
  std::vector<Layer> layers_;

 public:
  // Enters a solution into the plan.
  void Apply(const Solution& solution, ShardingPlan* plan) const {
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      FactorId factor = solution.choices[i].factor;
      if (factor != kUnused) {
        plan->ops[i].factors[factor] = WithAxis(static_cast<int>(i), factor);
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
};

// Model axes first: what they divide decides what is left for data axes.
std::vector<AxisId> SolveOrder(const Mesh& mesh) {
  std::vector<AxisId> order;
  for (bool model : {true, false}) {
    for (int a = mesh.num_axes(); a-- > 0;) {
      AxisRole role = RoleOf(mesh.name(static_cast<AxisId>(a)));
      if ((role == AxisRole::kModel) == model) {
        order.push_back(static_cast<AxisId>(a));
      }
    }
  }
  return order;
}

}  // namespace

PlanPrices::Link PlanPrices::Over(const AxisList& axes) const {
  Link slowest;
  bool first = true;
  for (AxisId axis : axes) {
    Link link = static_cast<size_t>(axis) < links.size() ? links[axis] : Link();
    if (first || link.bytes_per_us < slowest.bytes_per_us) slowest = link;
    first = false;
  }
  return slowest;
}

PlanPrices PricesFrom(const CostModel* costs) {
  PlanPrices prices;
  if (costs == nullptr) return prices;
  const Gpu& gpu = costs->machine().gpu;
  auto matrix = gpu.matrix_tflops.find("bf16");
  if (matrix != gpu.matrix_tflops.end()) {
    prices.flops_per_us = matrix->second.achievable * 1e6;
  }
  prices.memory_bytes_per_us = gpu.hbm_gbps.achievable * 1e3;
  prices.kernel_us = gpu.kernel_us;
  // A line through a small and a large all_gather.
  constexpr double kSmall = 1 << 16, kLarge = 1 << 26;
  for (int a = 0; a < costs->mesh().num_axes(); ++a) {
    AxisList axis = {static_cast<AxisId>(a)};
    double n = static_cast<double>(costs->mesh().size(axis));
    double small =
        costs->CollectiveUs(CollectiveKind::kAllGather, kSmall, axis);
    double large =
        costs->CollectiveUs(CollectiveKind::kAllGather, kLarge, axis);
    PlanPrices::Link link;
    if (n > 1 && large > small) {
      link.latency_us = small;
      link.bytes_per_us = (kLarge - kSmall) * (n - 1) / n / (large - small);
    }
    prices.links.push_back(link);
  }
  return prices;
}

absl::StatusOr<ShardingPlan> PlanSharding(const Program& program,
                                          const PlanOptions& options,
                                          PassContext& context) {
  ASYRA_ASSIGN_OR_RETURN(DimLabels labels, DimLabels::Of(program));
  ShardingPlan plan;
  for (const AxisRule& rule : labels.rules) {
    plan.ops.push_back({FactorAxes(rule.factors.size()),
                        std::vector<AxisList>(rule.operands.size())});
  }
  for (const Input& input : program.inputs) {
    plan.inputs.push_back(program.type(input.value));
  }
  for (AxisId axis : SolveOrder(program.mesh)) {
    const std::string& name = program.mesh.name(axis);
    int64_t size = program.mesh.size(axis);
    if (size == 1) continue;
    AxisSolver solver(program, labels, axis, options, plan);
    ASYRA_ASSIGN_OR_RETURN(AxisSolver::Solution solution, solver.Solve());
    if (!solution.used) {
      return Invalid(
          "axis {} of size {} shards nothing: no dimension it may "
          "shard has a size that {} divides{}",
          name, size, size,
          solution.undivided.empty()
              ? ""
              : "; the first op it should divide is " +
                    ToString(program, program.ops[solution.undivided[0]]));
    }
    for (int op : solution.undivided) {
      context.Remark("axis {} of size {} does not divide {}", name, size,
                     ToString(program, program.ops[op]));
    }
    solver.Apply(solution, &plan);
  }
  return plan;
}

}  // namespace asyra
