#include "passes/shard/plan_step.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "ir/training_names.h"
#include "passes/shard/axis_use.h"
#include "passes/shard/program_part.h"
#include "passes/shard/propagate_sharding.h"
#include "passes/shard/sharding_remarks.h"
#include "passes/shard/solve_axes.h"
#include "passes/shard/zero.h"
#include "passes/train/differentiate.h"
#include "simulator/cost/cost_model.h"
#include "simulator/replay/library_memory.h"

namespace asyra {
namespace {

// Ops of the phase in the order of the program. What is computed from weights
// alone comes where it is first read, so that layers repeat.
std::vector<int> OpsOf(const Program& program, const DimLabels& labels,
                       const std::vector<StepPhase>& phases, StepPhase phase) {
  std::vector<int> waiting(program.values.size(), -1);  // the op that makes it
  std::vector<int> order;
  auto add = [&](auto&& self, int i) -> void {
    for (ValueId value : program.ops[i].operands) {
      int before = std::exchange(waiting[value], -1);
      if (before >= 0) self(self, before);
    }
    order.push_back(i);
  };
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (phases[i] != phase) continue;
    if (op.results.size() == 1 && labels.of_weights[op.results[0]] &&
        !op.operands.empty()) {
      waiting[op.results[0]] = static_cast<int>(i);
    } else {
      add(add, static_cast<int>(i));
    }
  }
  // Results that no other op of the phase reads.
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (ValueId value : program.ops[i].results) {
      int left = std::exchange(waiting[value], -1);
      if (left >= 0) add(add, left);
    }
  }
  return order;
}

// The beam where all weights are cut as another program has decided, so that
// little is left open.
constexpr int kBeamOfPinned = 64;

bool PinsEveryWeight(const Program& program, const Pins& pins) {
  bool any = false;
  for (const Input& input : program.inputs) {
    if (!IsWeight(input)) continue;
    if (PinOf(pins, input.value) == nullptr) return false;
    any = true;
  }
  return any;
}

class StepPlanner {
 public:
  StepPlanner(const Program& program, const DimLabels& labels,
              const std::vector<StepPhase>& phases, const PlanOptions& options,
              PassContext& context)
      : program_(program),
        options_(options),
        labels_(labels),
        context_(context),
        forward_(Part(labels, phases, StepPhase::kForward)),
        backward_(Part(labels, phases, StepPhase::kBackward)),
        update_(Part(labels, phases, StepPhase::kUpdate)) {}

  absl::StatusOr<CostedPlan> Run() {
    ASYRA_RETURN_IF_ERROR(PlanForwardPart());
    if (options_.zero.has_value()) {
      ASYRA_ASSIGN_OR_RETURN(Decided plan, PlanAt(*options_.zero));
      return std::move(plan.plan);
    }
    return ChooseLevel();
  }

 private:
  // The decisions so far: a plan of the whole program, and the forms of its
  // values.
  struct Decided {
    CostedPlan plan;
    Forms fixed;
    int64_t update_ns = 0;
    int64_t stash_bytes = 0;  // that backward reads of forward
  };

  ProgramPart Part(const DimLabels& labels,
                   const std::vector<StepPhase>& phases, StepPhase phase) {
    return PartOf(program_, labels, OpsOf(program_, labels, phases, phase));
  }

  AxisRoles RolesOf(const ProgramPart& part) const {
    return AxisRoles(part.program, part.labels, options_.expert_axes,
                     options_.tp_strategy, options_.ep_strategy);
  }

  absl::Status PlanForwardPart() {
    PlanOptions options = options_;
    options.training = options.with_gradients = true;
    ASYRA_ASSIGN_OR_RETURN(
        CostedPlan plan,
        PlanForward(forward_.program, forward_.labels, options, context_));
    start_.plan.ops.resize(program_.ops.size());
    for (const Input& input : program_.inputs) {
      start_.plan.inputs.push_back(program_.type(input.value));
    }
    start_.plan.pins = options_.pins;
    start_.plan.pins.resize(program_.values.size());
    start_.fixed.resize(program_.values.size());
    Take(forward_, std::move(plan), &start_);
    AxisRoles roles = RolesOf(forward_);
    cut_ = whole_ = start_.plan.pins;
    for (const Input& input : program_.inputs) {
      ValueId value = input.value;
      if (input.role != InputRole::kParam || cut_[value].has_value() ||
          start_.fixed[value].empty()) {
        continue;
      }
      whole_[value] = start_.fixed[value][0];
      cut_[value] = CutForm(*whole_[value], roles, program_.mesh);
    }
    return absl::OkStatus();
  }

  // The whole step with that level of ZeRO.
  absl::StatusOr<Decided> PlanAt(int level) {
    Decided decided = start_;
    decided.plan.zero = level;
    if (level >= 3) {
      ASYRA_RETURN_IF_ERROR(CutParams(&decided));
    }
    ASYRA_RETURN_IF_ERROR(FixGradients(level, &decided));
    FixAccumulated(level, &decided);
    ASYRA_RETURN_IF_ERROR(PlanBackwardPart(&decided));
    ASYRA_RETURN_IF_ERROR(PlanUpdatePart(&decided));
    return decided;
  }

  // Parameters, and what is computed from one of them alone, are cut; readers
  // find them as they were planned.
  absl::Status CutParams(Decided* decided) const {
    std::vector<bool>& again = decided->plan.again;
    again.assign(program_.values.size(), false);
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      ValueId value = program_.inputs[i].value;
      if (!cut_[value].has_value() || cut_[value] == whole_[value]) continue;
      decided->plan.inputs[i] = *cut_[value];
      std::vector<Type>& fixed = decided->fixed[value];
      fixed.insert(fixed.begin(), *cut_[value]);
      again[value] = true;
    }
    std::vector<int> ops;
    for (int i : forward_.ops) {
      const Op& op = program_.ops[i];
      if (op.operands.size() != 1 || !again[op.operands[0]]) continue;
      if (!labels_.of_weights[op.results[0]]) continue;
      ops.push_back(i);
      for (ValueId value : op.results) again[value] = true;
    }
    ProgramPart part = PartOf(program_, labels_, ops);
    ASYRA_ASSIGN_OR_RETURN(Propagation found,
                           PropagateSharding(part.program, cut_));
    for (size_t k = 0; k < ops.size(); ++k) {
      decided->plan.ops[ops[k]] = found.plan.ops[k];
    }
    decided->plan.again_from = static_cast<int>(program_.ops.size());
    for (int i : backward_.ops) {
      decided->plan.again_from = std::min(decided->plan.again_from, i);
    }
    return absl::OkStatus();
  }

  // The forms of parameters' gradients and of the states beside them: those of
  // the parameters, whole or cut, as far as the updates go through without an
  // exchange.
  absl::Status FixGradients(int level, Decided* decided) {
    ASYRA_ASSIGN_OR_RETURN(
        Propagation states,
        PropagateSharding(update_.program, level >= 1 ? cut_ : whole_));
    ASYRA_ASSIGN_OR_RETURN(
        Propagation gradients,
        PropagateSharding(update_.program, level >= 2 ? cut_ : whole_));
    std::vector<bool> is_gradient(program_.values.size(), false);
    for (const Op& op : backward_.program.ops) {
      for (ValueId value : op.results) is_gradient[value] = true;
    }
    for (size_t i = 0; i < update_.program.inputs.size(); ++i) {
      const Input& input = update_.program.inputs[i];
      std::vector<Type>& fixed = decided->fixed[input.value];
      if (is_gradient[input.value]) {
        std::optional<Type>& pin = decided->plan.pins[input.value];
        if (!pin.has_value()) pin = gradients.plan.inputs[i];
      } else if (input.role == InputRole::kState && fixed.empty()) {
        fixed = {states.plan.inputs[i]};
        decided->plan.inputs[i] = fixed[0];
      }
    }
    return absl::OkStatus();
  }

  // Gives the sum over earlier batches of a gradient, and what this batch adds
  // to it, the form of the gradient.
  void FixAccumulated(int level, Decided* decided) const {
    const Pins& forms = level >= 2 ? cut_ : whole_;
    std::map<std::string, ValueId> params;  // by the name of that state
    for (const Input& input : program_.inputs) {
      if (input.role != InputRole::kParam) continue;
      const std::string& name = program_.value_name(input.value);
      params[fmt::format("{}{}", GradientName(name), kAccumulated)] =
          input.value;
    }
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      ValueId state = program_.inputs[i].value;
      auto param = params.find(program_.value_name(state));
      if (param == params.end() || !forms[param->second].has_value()) continue;
      const Type& form = *forms[param->second];
      decided->fixed[state] = {form};
      decided->plan.inputs[i] = form;
      for (const Op& op : backward_.program.ops) {
        if (!absl::c_linear_search(op.operands, state)) continue;
        std::vector<ValueId> values(op.operands.begin(), op.operands.end());
        values.push_back(op.results[0]);
        for (ValueId value : values) {
          std::optional<Type>& pin = decided->plan.pins[value];
          bool is_like = program_.type(value).shape() == form.shape();
          if (value != state && is_like && !pin.has_value()) pin = form;
        }
      }
    }
  }

  // Returns whether op adds a gradient to those of other batches: its form is
  // given.
  bool AddsToOthers(const Op& op) const {
    return absl::c_any_of(op.operands, [this](ValueId value) {
      return IsAccumulated(program_.value_name(value));
    });
  }

  absl::Status PlanBackwardPart(Decided* decided) {
    PlanOptions options = options_;
    options.pins = decided->plan.pins;
    options.training = true;
    AxisRoles roles = RolesOf(backward_);
    roles.DivideSums();
    for (size_t i = 0; i < backward_.program.ops.size(); ++i) {
      if (AddsToOthers(backward_.program.ops[i])) {
        roles.AllowAll(static_cast<int>(i));
      }
    }
    ASYRA_ASSIGN_OR_RETURN(CostedPlan plan, SolveAxes(backward_.program, roles,
                                                      options, decided->fixed));
    plan.ns = 0;  // it is in that of forward
    decided->stash_bytes = StashBytes(plan.forms, *decided);
    Take(backward_, std::move(plan), decided);
    return absl::OkStatus();
  }

  absl::Status PlanUpdatePart(Decided* decided) {
    AxisRoles roles = RolesOf(update_);
    roles.AllowAll();
    ASYRA_ASSIGN_OR_RETURN(
        CostedPlan plan,
        SolveAxes(update_.program, roles, options_, decided->fixed));
    decided->update_ns = plan.ns;
    Take(update_, std::move(plan), decided);
    return absl::OkStatus();
  }

  // Makes the part's plan one of the whole, and fixes its values.
  void Take(const ProgramPart& part, CostedPlan plan, Decided* decided) const {
    for (size_t i = 0; i < part.ops.size(); ++i) {
      decided->plan.ops[part.ops[i]] = std::move(plan.ops[i]);
    }
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      std::vector<Type>& fixed = decided->fixed[program_.inputs[i].value];
      if (!fixed.empty() || plan.forms[program_.inputs[i].value].empty()) {
        continue;
      }
      decided->plan.inputs[i] = plan.inputs[i];
      fixed = {plan.inputs[i]};
    }
    for (size_t v = 0; v < plan.forms.size(); ++v) {
      for (Type& form : plan.forms[v]) {
        std::vector<Type>& known = decided->fixed[v];
        if (std::find(known.begin(), known.end(), form) == known.end()) {
          known.push_back(std::move(form));
        }
      }
    }
    decided->plan.ns += plan.ns;
  }

  // Level 0 where it fits into the memory of a device, unless the updates gain
  // more time by being cut than it takes to gather parameters. Otherwise the
  // lowest of levels 2 and 3 that fits. Level 1 has no advantage over 2.
  absl::StatusOr<CostedPlan> ChooseLevel() {
    ASYRA_ASSIGN_OR_RETURN(Decided plan, PlanAt(0));
    if (cut_ == whole_) return std::move(plan.plan);
    int64_t bytes = StepBytes(plan);
    bool fits = bytes <= MemoryBytes();
    for (int level : {2, 3}) {
      if (level == 3 && fits) break;
      ASYRA_ASSIGN_OR_RETURN(Decided other, PlanAt(level));
      if (fits && other.update_ns >= plan.update_ns) break;
      context_.Remark(
          "zero {}: {}", level,
          fits
              ? fmt::format(
                    "updates take {}, {} with zero 0",
                    TimeText(static_cast<double>(other.update_ns) / 1e3),
                    TimeText(static_cast<double>(plan.update_ns) / 1e3))
              : fmt::format("a step takes about {} of a device, {} with zero 0",
                            BytesText(static_cast<double>(StepBytes(other))),
                            BytesText(static_cast<double>(bytes))));
      bool enough = StepBytes(other) <= MemoryBytes();
      plan = std::move(other);
      if (enough) break;
    }
    return std::move(plan.plan);
  }

  // Returns the bytes of forward values in the forms that backward reads. Of
  // parameters that are gathered again only the parts are kept, which are
  // inputs.
  int64_t StashBytes(const Forms& needed, const Decided& decided) const {
    int64_t bytes = 0;
    size_t first = program_.inputs.size();
    for (size_t i = first; i < backward_.program.inputs.size(); ++i) {
      ValueId value = backward_.program.inputs[i].value;
      if (!decided.plan.again.empty() && decided.plan.again[value]) continue;
      const std::vector<Type>& have = decided.fixed[value];
      bool converted = needed[value].empty();
      for (const Type& form : needed[value]) {
        bool there = std::find(have.begin(), have.end(), form) != have.end();
        if (there) bytes += LocalBytes(form, program_.mesh);
        converted |= !there;
      }
      int64_t least = INT64_MAX;
      for (const Type& form : have) {
        least = std::min(least, LocalBytes(form, program_.mesh));
      }
      if (converted && !have.empty()) bytes += least;
    }
    return bytes;
  }

  // About what a device holds as updates begin or backward does, whichever is
  // more: parameters, states, and gradients or what forward has left.
  int64_t StepBytes(const Decided& decided) const {
    int64_t bytes = 0, gradients = 0;
    for (const Type& type : decided.plan.inputs) {
      bytes += LocalBytes(type, program_.mesh);
    }
    for (const Op& op : backward_.program.ops) {
      for (ValueId value : op.results) {
        const Type* form = PinOf(decided.plan.pins, value);
        if (form != nullptr) gradients += LocalBytes(*form, program_.mesh);
      }
    }
    return bytes + std::max(gradients, decided.stash_bytes);
  }

  int64_t MemoryBytes() const {
    const CostModel* model = options_.costs.model;
    int64_t bytes = options_.memory_bytes.value_or(
        model == nullptr ? 0 : CapacityBytes(/*gib=*/-1, model->machine()));
    return bytes == 0 ? INT64_MAX : bytes;
  }

  const Program& program_;
  const PlanOptions& options_;
  const DimLabels& labels_;
  PassContext& context_;
  ProgramPart forward_, backward_, update_;
  Decided start_;     // after forward
  Pins whole_, cut_;  // by value: forms of params
};

}  // namespace

absl::StatusOr<CostedPlan> PlanForward(const Program& program,
                                       const DimLabels& labels,
                                       const PlanOptions& given,
                                       PassContext& context) {
  PlanOptions options = given;
  if (PinsEveryWeight(program, options.pins)) {
    options.beam = std::min(options.beam, kBeamOfPinned);
  }
  AxisRoles roles(program, labels, options.expert_axes, options.tp_strategy,
                  options.ep_strategy);
  ASYRA_ASSIGN_OR_RETURN(CostedPlan plan,
                         SolveWithEveryAxis(program, options, &roles, context));
  ASYRA_RETURN_IF_ERROR(
      CheckExperts(program, roles, plan, options.pins, context));
  RemarkUndivided(program, roles, plan, context);
  plan.pins = options.pins;
  return plan;
}

absl::StatusOr<CostedPlan> PlanTrainingStep(
    const Program& program, const DimLabels& labels,
    const std::vector<StepPhase>& phases, const PlanOptions& options,
    PassContext& context) {
  return StepPlanner(program, labels, phases, options, context).Run();
}

}  // namespace asyra
