// Gradients of several batches are reduced over devices once.
#pragma once

#include "passes/pass.h"

namespace asyra {

// Defers all_reduces in a local program with states of accumulate_gradients:
// where a state adds the result of an all_reduce,
//
//   %sum = add(%state, all_reduce(%part))
//
// each device keeps a sum of its own parts instead, in a state of the type of
// %part, and only readers of %sum get the sum of devices:
//
//   %own = add(%state, %part), %sum = all_reduce(%own)
//
// A reshape may stand behind the all_reduce: it is then one of the parts. So
// only the last of the batches exchanges gradients, and its collectives are
// what they would be without others. Scalars, such as the sum of losses, are
// not worth it: programs of one training may compute them in other ways, and
// would not agree on the state. With `sums` (split_sums.h) the states are those
// of another program of the training: over axes over which its devices have the
// sum for each batch they have it here, too, and so with parts.
// A gradient that is reduce_scattered (shard/zero.h, level 2 and above) is so
// for each batch: kept whole, its sums would take the memory that cutting it
// saves.
absl::StatusOr<bool> DeferReductions(Program& program,
                                     const PassOptions& options,
                                     PassContext& context);

}  // namespace asyra
