#include "passes/shard/plan_sharding.h"

#include <algorithm>

#include "ir/support/status.h"
#include "passes/analysis/dim_labels.h"
#include "passes/shard/plan_step.h"
#include "passes/train/step_phase.h"

namespace asyra {
absl::StatusOr<ShardingPlan> PlanSharding(const Program& program,
                                          const PlanOptions& options,
                                          PassContext& context) {
  ASYRA_ASSIGN_OR_RETURN(DimLabels labels,
                         DimLabels::Of(program, options.dim_names));
  std::vector<StepPhase> phases = PhasesOf(program);
  CostedPlan plan;
  if (phases.empty()) {
    ASYRA_ASSIGN_OR_RETURN(plan,
                           PlanForward(program, labels, options, context));
  } else {
    ASYRA_ASSIGN_OR_RETURN(
        plan, PlanTrainingStep(program, labels, phases, options, context));
  }
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Type* pin = PinOf(options.pins, program.inputs[i].value);
    if (pin != nullptr) plan.inputs[i] = *pin;
  }
  return ShardingPlan{std::move(plan.ops),
                      std::move(plan.inputs),
                      std::move(plan.pins),
                      std::move(plan.again),
                      plan.again_from,
                      plan.zero,
                      static_cast<double>(plan.ns) / 1000};
}

}  // namespace asyra
