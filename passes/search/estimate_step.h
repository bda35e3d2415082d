// A step without a schedule: how a model is sharded, what memory it needs, and
// between which times a schedule of it comes to lie. Seconds, where a search
// takes minutes.
#pragma once

#include "absl/status/status.h"
#include "passes/compile_options.h"
#include "passes/compile_result.h"
#include "passes/pass.h"

namespace asyra {

// Shards result->program, fuses it, and simulates it as it is: its collectives
// hide nothing, its order is the model's. A training step whose memory is open
// (recompute auto, loss_chunks 0) and that does not fit so is made smaller: all
// values are computed again, then the loss in chunks besides. Sets `program`,
// `partitioned`, `simulated`, whose lower bound (bound.h) no schedule of this
// program beats, and `estimate`. Needs context.costs.
absl::Status EstimateStep(const CompileOptions& options, PassContext& context,
                          CompileResult* result);

}  // namespace asyra
