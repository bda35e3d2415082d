// A program that only tells the loss.
#pragma once

#include "passes/pass.h"

namespace asyra {

// Of a program with the outputs of attach_loss: its outputs become `loss`, the
// sum divided by the count, and `loss_count`. Error: outputs that are not
// there.
absl::StatusOr<bool> AverageLoss(Program& program, const PassOptions& options,
                                 PassContext& context);

}  // namespace asyra
