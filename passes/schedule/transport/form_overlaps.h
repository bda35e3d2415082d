// Makes one op of a collective and the computation before or behind it, so that
// its pieces hide each other (ir/overlap.h):
//
//   a gather and the ops that read it;
//   an op and the reduction, or the exchange of summands, of its result;
//   exchanges, the op between them, and the exchange of its result;
//   several ops that do not need each other, and the reductions of their
//   results.
//
// Which ops may go together follows from axis rules (ir/plans/plan_walk.h). The
// shape of each plan is the fastest by simulation alone
// (simulator/cost/plan_cost.h).
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/schedule/transport/overlap_choice.h"
#include "simulator/cost/cost_model.h"

namespace asyra {

struct OverlapOptions {
  bool gathers = true;     // in front of what reads them
  bool reductions = true;  // and exchanges, behind what they move
  OverlapTaking taking = OverlapTaking::kGaining;
  // True: only reductions, several as one overlap (join_overlaps.h).
  bool joined = false;
};

// Forms overlaps in a scheduled program; returns their number. Neither program
// order of other ops nor their streams change.
absl::StatusOr<int> FormOverlaps(Program& program,
                                 const OverlapOptions& options,
                                 const CostModel& costs);

// The pass `form_overlaps`.
absl::StatusOr<bool> FormOverlapsPass(Program& program,
                                      const PassOptions& options,
                                      PassContext& context);
// The pass `split_overlaps`, which undoes it: collectives are started where
// their operands are available, and waited for at once.
absl::StatusOr<bool> SplitOverlapsPass(Program& program,
                                       const PassOptions& options,
                                       PassContext& context);

}  // namespace asyra
