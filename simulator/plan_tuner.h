// Chooses the shape of a chunk plan: parts, groups and route, by simulation
// (plan_cost.h).
#pragma once

#include "ir/plan_templates.h"
#include "simulator/cost_model.h"

namespace asyra {

struct OverlapTuning {
  PlanShape shape;
  double time_us = 0;  // 0: there is no plan
};

// The fastest of the direct shapes with this order, of 1, 2 or 4 parts; groups
// none, of equal sizes, or those of plan_groups.h at the costs of these. The
// plan is proven. None is pulled: GPUs do not carry those out (copy_plan.h).
OverlapTuning TuneOverlap(const GroupBody& body, PlanOrder order,
                          const CostModel& costs);

}  // namespace asyra
