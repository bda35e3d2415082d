// The plan of a training step, in three parts, each with what was decided
// before it fixed:
//
//   forward   as a program of its own, with the costs of its gradients added:
//             the plan of the model
//   backward  with the forms in which forward leaves values. A gradient of a
//             parameter is summed where it is made, into the form of that
//             parameter
//   update    with the forms of parameters and gradients
//
// So what backward reads of forward has no part in the search, layers of
// backward repeat as those of forward do, and the time to plan does not grow
// with their number.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "passes/analysis/dim_labels.h"
#include "passes/pass.h"
#include "passes/shard/sharding_plan.h"
#include "passes/shard/sharding_solver.h"
#include "passes/train/step_phase.h"

namespace asyra {

// Plans a program without gradients. Errors and remarks as of PlanSharding.
absl::StatusOr<CostedPlan> PlanForward(const Program& program,
                                       const DimLabels& labels,
                                       const PlanOptions& options,
                                       PassContext& context);

// `phases` by op. Its pins are the user's, and those of gradients.
absl::StatusOr<CostedPlan> PlanTrainingStep(
    const Program& program, const DimLabels& labels,
    const std::vector<StepPhase>& phases, const PlanOptions& options,
    PassContext& context);

}  // namespace asyra
