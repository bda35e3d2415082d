// A program that only tells the loss.
#pragma once

#include "passes/pass.h"

namespace asyra {

// Replaces the outputs of attach_loss by `loss`, the sum divided by the count,
// and `loss_count`. Error: a missing output.
absl::StatusOr<bool> AverageLoss(Program& program, const PassOptions& options,
                                 PassContext& context);

}  // namespace asyra
