// Tokens of all batches go to their experts at once.
#pragma once

#include "passes/pass.h"

namespace asyra {

// moe_dispatch of tokens [batch, tokens, hidden] gives rows [batch, expert,
// slot, hidden], and a matmul for each expert of each batch; of [batch *
// tokens, hidden] it gives [expert, batch * slot, hidden]: the rows of an
// expert are contiguous, also those that an all_to_all has brought, and are one
// matmul. So are rewritten, up to moe_combine or moe_collect, the
// grouped_matmuls and the ops element by element between; groups stay as they
// are. A dispatch whose rows anything else reads is left alone, and so are all
// where the mesh may cut tokens inside of a batch (an axis sp, or a batch that
// the other axes do not divide), since the merged dimension could not be
// sharded as they are.
absl::StatusOr<bool> MergeExpertRows(Program& program,
                                     const PassOptions& options,
                                     PassContext& context);

}  // namespace asyra
