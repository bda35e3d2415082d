// Products with a fused weight, of which only disjoint slices are read (the
// query, key and value of GPT-2), become one product a slice, so that each can
// be sharded by its own heads.
#pragma once

#include "passes/pass.h"

namespace asyra {

// slice(matmul(x, w) + bias) along the last dimension, w a weight of rank 2.
// A weight with data is sliced into new weights NAME.0, NAME.1, ...; one
// without is replaced by inputs of the slices' shapes, which a remark says.
absl::StatusOr<bool> SplitProjections(Program& program, PassContext& context);

}  // namespace asyra
