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
// An exchange takes what the library takes for its messages, from when all of
// its ranks have come, and is slowed by pieces as collectives are.
#pragma once

#include <cstdint>
#include <vector>

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
  double hbm_us = 0;   // of its pieces, memory at full speed
  double sms_us = 0;   // all SMs
  double math_us = 0;  // of pieces that arithmetic limits
  OpEnergy energy;
  // Bytes on all ranks that kernels do not take where they are
  // (ir/plans/plan_packing.h).
  int64_t packed_bytes = 0;
  // The least certain source among its pieces.
  OpCost::Source source = OpCost::kMeasured;
  std::vector<PlanSpan> spans;  // in order of their ends
};

// The group and the schedule of the overlap whose plan it is.
struct PlanSetting {
  AxisList axes = {0};  // of the model's mesh
  // SMs that its pieces leave, which the library's exchanges hold. Without
  // them an exchange begins when no piece runs.
  int sm_margin = 0;
};

// The plan has been verified: it ends.
PlanTimes ReplayPlan(const ChunkPlan& plan, const CostModel& costs,
                     const PlanSetting& setting = {});

}  // namespace asyra
