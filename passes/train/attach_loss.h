// The loss that a model is trained by.
#pragma once

#include "ir/training_names.h"
#include "passes/pass.h"

namespace asyra {

// Values of the option `batch`, of a step that has several.
inline constexpr char kLastBatch[] = "last", kBatchBefore[] = "before";

// Leaves two outputs: `loss_sum`, a scalar, and `loss_count`, how many terms it
// has. Sum and count are apart so that shards and microbatches with unequal
// counts weigh right: gradients are of the sum, updates divide by the count.
// - A model with a float output of one element has that as its loss. Where it
//   is a sum over the rows of the batch divided by another one, such as the
//   number of labels that count, these are sum and count (loss_parts.h).
//   Otherwise it is the sum, and 1 the count: the mean of the batches of a
//   step, which is that of one batch N times as large where it is a mean of as
//   many terms in each. Where it is a sum over the rows, batches before the
//   last one of a step have a count of 0, so that nothing is divided.
// - Otherwise `output`, or the only float output, holds logits [..., classes].
//   The input `labels`, i64 [...], has a class for each row, and -100 where a
//   row has no loss; the sum is of their cross entropies. With option
//   next_token there is no such input: the label of a position is the token
//   at the next one of the only i64 data input, and the last has none.
// All other outputs are dropped.
// Errors: several outputs that may be logits; an output that is missing, or
// that is neither a loss nor rows; with `batch`, a loss of one element of which
// several batches do not give that of all their rows; a model with logits that
// has a value called `labels`; no tokens, or of another shape than the rows.
absl::StatusOr<bool> AttachLoss(Program& program, const PassOptions& options,
                                PassContext& context);

}  // namespace asyra
