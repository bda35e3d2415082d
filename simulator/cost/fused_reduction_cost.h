// The time of an overlap that is one kernel (ir/plans/fused_reduction.h): its
// launch, two device barriers of the members, and the time of its bytes over
// the links or of those in its own memory, whichever is longer.
#pragma once

#include "ir/op_def.h"
#include "simulator/cost/cost_model.h"

namespace asyra {

// The device barrier of the members' kernels: from the last one's begin until
// all have seen it, and the same at their ends. Fitted to reductions + add +
// rms_norm of 128 to 2048 rows on two H200.
inline constexpr double kPeerMeetingUs = 3.2;

// `call` is an overlap of this form, whose members reach each other's memory.
// Nothing that takes time where its body is none.
OpCost FusedReductionCost(const OpCall& call, const CostModel& costs);

// The same as separate ops: the reduction as the library or copy engines carry
// it, whichever is faster, a fusion, and the gathers.
OpCost SplitReductionCost(const OpCall& call, const CostModel& costs);

}  // namespace asyra
