// Proves a chunk plan, of all ranks at once, whatever the speed of its queues:
//
// - what it names exists, and boxes are within their buffers;
// - a signal is posted by one queue and awaited by one, each count once and in
//   order, and all that is posted is awaited, before it is posted again in the
//   next step of the program;
// - ranks make the calls of exchanges in one order, and who is sent something
//   takes part (ir/plans/plan_exchanges.h);
// - no step waits for what cannot come, also where a device has fewer hardware
//   connections than queues, and runs what shares one in order of issue;
// - a piece computes the part of its op's result that its operands' boxes make,
//   a copy keeps value and summands, and a sum adds each summand once;
// - what a step reads was written before, and nothing is written twice;
// - results are complete;
// - a rank's memory is used by others only while its op runs, and used again
//   only when nobody needs the old bytes;
// - what several ranks hold is computed in equal pieces and order, so
//   that it is equal bit for bit.
//
// Order is by vector clocks over queues. Cost: steps times queues, and for each
// buffer the pairs of its accesses.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/attr.h"
#include "ir/plans/chunk_plan.h"

namespace asyra {

struct VerifyPlanOptions {
  // Hardware connections of a device: queue q is on connection q modulo these.
  // 0: one for each queue.
  int connections = 0;
  // Most bytes of a rank's workspace; 0: as much as the plan says.
  int64_t most_workspace_bytes = 0;
};

// The error names rank and step.
absl::Status VerifyPlan(const ChunkPlan& plan,
                        const VerifyPlanOptions& options = {});

// The plan as an attribute, if VerifyPlan accepts it. The places of its steps
// in a text are only in errors.
absl::StatusOr<PlanRef> ProvenPlan(ChunkPlan plan);

}  // namespace asyra
