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

// The fastest of the shapes with this order: direct or pulled, of 1, 2 or 4
// parts; groups none, of equal sizes, or those of plan_groups.h at the costs of
// these. The plan is proven.
OverlapTuning TuneOverlap(const GroupBody& body, PlanOrder order,
                          const CostModel& costs);

}  // namespace asyra
