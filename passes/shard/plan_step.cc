#include "passes/shard/plan_step.h"

#include <algorithm>
#include <utility>

#include "ir/support/status.h"
#include "passes/shard/axis_use.h"
#include "passes/shard/program_part.h"
#include "passes/shard/propagate_sharding.h"
#include "passes/shard/sharding_remarks.h"
#include "passes/shard/solve_axes.h"

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
  // What no other op of the phase reads.
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (ValueId value : program.ops[i].results) {
      int left = std::exchange(waiting[value], -1);
      if (left >= 0) add(add, left);
    }
  }
  return order;
}

class StepPlanner {
 public:
  StepPlanner(const Program& program, const DimLabels& labels,
              const std::vector<StepPhase>& phases, const PlanOptions& options,
              PassContext& context)
      : program_(program),
        options_(options),
        context_(context),
        forward_(Part(labels, phases, StepPhase::kForward)),
        backward_(Part(labels, phases, StepPhase::kBackward)),
        update_(Part(labels, phases, StepPhase::kUpdate)),
        fixed_(program.values.size()) {
    plan_.ops.resize(program.ops.size());
    for (const Input& input : program.inputs) {
      plan_.inputs.push_back(program.type(input.value));
    }
    plan_.pins = options.pins;
    plan_.pins.resize(program.values.size());
  }

  absl::StatusOr<CostedPlan> Run() {
    ASYRA_RETURN_IF_ERROR(PlanForwardPart());
    ASYRA_RETURN_IF_ERROR(FixGradients());
    ASYRA_RETURN_IF_ERROR(PlanBackwardPart());
    ASYRA_RETURN_IF_ERROR(PlanUpdatePart());
    return std::move(plan_);
  }

 private:
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
    Take(forward_, std::move(plan));
    return absl::OkStatus();
  }

  // The forms of parameters' gradients and of the states beside them: those of
  // the parameters, as far as the updates go through without an exchange.
  absl::Status FixGradients() {
    Pins seeds = plan_.pins;
    for (const Input& input : program_.inputs) {
      if (input.role != InputRole::kParam || seeds[input.value].has_value() ||
          fixed_[input.value].empty()) {
        continue;
      }
      seeds[input.value] = fixed_[input.value][0];
    }
    ASYRA_ASSIGN_OR_RETURN(Propagation found,
                           PropagateSharding(update_.program, seeds));
    std::vector<bool> is_gradient(program_.values.size(), false);
    for (const Op& op : backward_.program.ops) {
      for (ValueId value : op.results) is_gradient[value] = true;
    }
    for (size_t i = 0; i < update_.program.inputs.size(); ++i) {
      const Input& input = update_.program.inputs[i];
      const Type& form = found.plan.inputs[i];
      if (is_gradient[input.value]) {
        std::optional<Type>& pin = plan_.pins[input.value];
        if (!pin.has_value()) pin = form;
      } else if (input.role == InputRole::kState &&
                 fixed_[input.value].empty()) {
        fixed_[input.value] = {form};
        plan_.inputs[i] = form;
      }
    }
    return absl::OkStatus();
  }

  absl::Status PlanBackwardPart() {
    PlanOptions options = options_;
    options.pins = plan_.pins;
    options.training = true;
    AxisRoles roles = RolesOf(backward_);
    roles.DivideSums();
    ASYRA_ASSIGN_OR_RETURN(
        CostedPlan plan, SolveAxes(backward_.program, roles, options, fixed_));
    plan.ns = 0;  // it is in that of forward
    Take(backward_, std::move(plan));
    return absl::OkStatus();
  }

  absl::Status PlanUpdatePart() {
    AxisRoles roles = RolesOf(update_);
    roles.AllowAll();
    ASYRA_ASSIGN_OR_RETURN(CostedPlan plan,
                           SolveAxes(update_.program, roles, options_, fixed_));
    Take(update_, std::move(plan));
    return absl::OkStatus();
  }

  // Makes the part's plan one of the whole, and fixes its values.
  void Take(const ProgramPart& part, CostedPlan plan) {
    for (size_t i = 0; i < part.ops.size(); ++i) {
      plan_.ops[part.ops[i]] = std::move(plan.ops[i]);
    }
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      ValueId value = program_.inputs[i].value;
      if (!fixed_[value].empty() || plan.forms[value].empty()) continue;
      plan_.inputs[i] = plan.inputs[i];
      fixed_[value] = {plan.inputs[i]};
    }
    for (size_t v = 0; v < plan.forms.size(); ++v) {
      for (Type& form : plan.forms[v]) {
        auto& known = fixed_[v];
        if (std::find(known.begin(), known.end(), form) == known.end()) {
          known.push_back(std::move(form));
        }
      }
    }
    plan_.ns += plan.ns;
  }

  const Program& program_;
  const PlanOptions& options_;
  PassContext& context_;
  ProgramPart forward_, backward_, update_;
  Forms fixed_;  // by value: what is decided
  CostedPlan plan_;
};

}  // namespace

absl::StatusOr<CostedPlan> PlanForward(const Program& program,
                                       const DimLabels& labels,
                                       const PlanOptions& options,
                                       PassContext& context) {
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

absl::StatusOr<CostedPlan> PlanStep(const Program& program,
                                    const DimLabels& labels,
                                    const std::vector<StepPhase>& phases,
                                    const PlanOptions& options,
                                    PassContext& context) {
  return StepPlanner(program, labels, phases, options, context).Run();
}

}  // namespace asyra
