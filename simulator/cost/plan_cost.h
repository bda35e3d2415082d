// The time of a chunk plan (ir/plans/chunk_plan.h): the queues of all ranks
// replayed.
//
// A piece takes what the cost model says of its op at its size, and what
// packing its boxes takes, as a GPU needs them (ir/plans/plan_packing.h). A
// copy takes a fixed time to issue, and then shares the way out of its GPU and
// the way into the other one evenly with the copies that use them. A signal to
// another rank is seen one device barrier later, one to another queue one
// kernel later, and so it is at the begin and the end of the queues. Ranks
// begin together. Pieces and copies do not slow each other down.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/body.h"
#include "ir/plans/chunk_plan.h"
#include "simulator/cost/cost_model.h"

namespace asyra {

struct PlanSpan {
  int rank = 0, step = 0;
  double start_us = 0, end_us = 0;  // waits: until what they wait for is seen
};

struct PlanTimes {
  double time_us = 0;  // until the last queue of the last rank ends
  // Times of the rank that computes, or copies, longest.
  double compute_us = 0, copy_us = 0;
  double hbm_us = 0;  // of its pieces, memory at full speed
  double sms_us = 0;  // all SMs
  // Bytes on all ranks that kernels do not take where they are
  // (ir/plans/plan_packing.h).
  int64_t packed_bytes = 0;
  // The least certain source among its pieces.
  OpCost::Source source = OpCost::kMeasured;
  std::vector<PlanSpan> spans;  // in order of their ends
};

// The plan has been verified: it ends.
PlanTimes ReplayPlan(const ChunkPlan& plan, const CostModel& costs);

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
