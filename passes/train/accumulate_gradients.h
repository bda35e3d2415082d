// Gradients of several batches, for one update.
#pragma once

#include "passes/pass.h"

namespace asyra {

// Adds each output of attach_loss and differentiate to a state, zeros at first,
// that is called as the output with `.accumulated` behind
// (ir/training_names.h). N batches so give the sums that one batch of N times
// the rows has.
// - `last` false: the program of all batches but the last. Its outputs are the
//   new sums, and loss_sum and loss_count of this batch. The loss scale, where
//   there is one, is that of the step, which it leaves as it is.
// - `last` true: outputs of the old names have all sums, for attach_updates.
//   The states keep them: who runs the programs clears them before the next
//   batch.
// Error: no gradients.
absl::StatusOr<bool> AccumulateGradients(Program& program,
                                         const PassOptions& options,
                                         PassContext& context);

}  // namespace asyra
