// Costs of overlaps (ir/overlap.h), and of the transports of collectives. The
// plan of an overlap is replayed (simulator/cost/plan_replay.h).
#pragma once

#include <string>
#include <vector>

#include "ir/body.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/plan_replay.h"

namespace asyra {

// Returns whether copy engines reach all devices between which `body`
// communicates.
bool CanCarryPlans(const Body& body, const CostModel& costs);

// Returns the cost of a collective by copy engines, or by the library where
// they cannot carry it.
OpCost CopyEngineCost(const OpCall& call, const CostModel& costs);
// Returns the cost by the library or by copy engines, whichever is faster.
OpCost FastestTransportCost(const OpCall& call, const CostModel& costs);

// The work of a queue in an overlap.
struct OverlapStep {
  std::string queue;  // "compute", "copy 0"
  std::string name;   // "matmul of %3[0:4, 0:8]"
  bool is_copy = false;
  double start_us = 0, end_us = 0;  // from the begin of the op
};
struct OverlapTimeline {
  double time_us = 0;              // of the op alone
  std::vector<OverlapStep> steps;  // in order of their ends
};
// The pieces, sums and copies of the first rank, which all others resemble;
// none where no plan is carried out.
OverlapTimeline OverlapTimelineOf(const OpCall& call, const CostModel& costs);

// Returns the cost of an overlap: computation that also uses links and copy
// engines, or one kernel (simulator/cost/fused_reduction_cost.h). Its ops one
// after the other where copy engines cannot carry a plan, as executors then run
// them. Nothing that takes time where it has no plan.
OpCost OverlapCost(const OpCall& call, const CostModel& costs);

}  // namespace asyra
