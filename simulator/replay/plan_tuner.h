// Chooses the shape of a chunk plan: parts, groups and where sums are added, by
// simulation (plan_cost.h), corrected by what was measured of such plans.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/body.h"
#include "ir/plans/plan_templates.h"
#include "simulator/cost/cost_model.h"

namespace asyra {

struct OverlapTuning {
  PlanShape shape;
  int sm_margin = 0;     // SMs that pieces leave to exchanges
  double time_us = 0;    // 0: there is no plan
  double pieces_us = 0;  // the same, uncorrected by measured plans
  // The least certain source of what pieces take.
  OpCost::Source source = OpCost::kFormula;
};

// The `most` fastest of the direct shapes and rings with this order, fastest
// first: of 1, 2, 4 or 8 parts, sums apart or in pieces; groups none, of equal
// sizes, or those of plan_groups.h at the costs of these; by copies where copy
// engines reach all devices, else by messages, with several SM margins. Their
// plans are proven. None is pulled: GPUs do not carry those out (copy_plan.h).
// `operands`, distributed over the mesh of `costs`, are the overlap's.
std::vector<OverlapTuning> FastestOverlaps(const Body& body,
                                           absl::Span<const Type> operands,
                                           PlanOrder order,
                                           const CostModel& costs, size_t most);
// The first of them.
OverlapTuning TuneOverlap(const Body& body, absl::Span<const Type> operands,
                          PlanOrder order, const CostModel& costs);

}  // namespace asyra
