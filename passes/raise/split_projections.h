// Matmuls with a fused weight, of which only disjoint slices are read (the
// query, key and value of GPT-2), become one matmul a slice, so that each can
// be sharded by its own heads.
#pragma once

#include "passes/pass.h"

namespace asyra {

// slice(matmul(x, w) + bias) of columns, w a weight of rank 2, or of a
// grouped_matmul with weights of rank 3; also under a
// reshape that splits the columns, as [heads, 3, head] or [3, heads, head],
// along any of its dimensions. A weight with data is sliced into new weights
// NAME.0, NAME.1, ...; one without is replaced by inputs of the slices'
// shapes, which a remark says. A weight or bias that something else reads, or
// cuts in another way, stays whole, and so does its projection.
absl::StatusOr<bool> SplitProjections(Program& program,
                                      const PassOptions& options,
                                      PassContext& context);

}  // namespace asyra
