// Sends tokens of all batches to their experts at once.
#pragma once

#include "passes/pass.h"

namespace asyra {

// moe_dispatch of tokens [batch, tokens, hidden] gives rows [batch, expert,
// slot, hidden], and a matmul for each expert of each batch; of [batch *
// tokens, hidden] it gives [expert, batch * slot, hidden]: the rows of an
// expert are contiguous, also after an all_to_all, and are one matmul. The
// grouped_matmuls and elementwise ops up to moe_combine or moe_collect are
// rewritten; groups stay unchanged. A dispatch whose rows another op reads is
// left alone. Nothing is rewritten if the mesh may cut tokens inside a batch
// (an axis sp, or a batch that the other axes do not divide), since the merged
// dimension could not be sharded in that way.
absl::StatusOr<bool> MergeExpertRows(Program& program,
                                     const PassOptions& options,
                                     PassContext& context);

}  // namespace asyra
