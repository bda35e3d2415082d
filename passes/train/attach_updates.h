// The optimizer's part of a training step.
#pragma once

#include "ir/training_names.h"
#include "passes/pass.h"

namespace asyra {

// Makes a program with the outputs of attach_loss and differentiate a step that
// updates its params. Gradients are divided by loss_count; `norm` is the root
// of the sum of their squares, over all parameters; where it is above `clip`
// they are scaled by clip / (norm + 1e-6). Then, with the learning rate from
// the data input `rate`:
//   adamw: param -= rate * (m' / (sqrt(v') + eps) + decay * param)
//   sgd:   velocity = momentum * velocity + gradient + decay * param;
//          param -= rate * velocity
// as ir/ops/optim.cc has them. Moments are states of the params' names with
// `.m`, `.v` or `.velocity` behind; they begin as zeros. `decay` is for params
// that `decay_of` matches whole, "matrices" for those of rank 2 and more.
// A step whose norm is not finite changes nothing, and neither does one whose
// loss_count is 0: loss and norm are then not finite. With a loss_scale
// (differentiate) it halves the scale; kStepsToDouble steps without one double
// it, and those without labels that count leave it as it is. With `clip` 0 and
// no loss_scale it is the loss that tells: then no update waits for other
// gradients than its own.
// Outputs are then `loss`, `norm`, `loss_count` and the new values; those that
// replace states already, as of accumulate_gradients, stay.
// Errors: no gradients; a model with a value called `rate`; a scalar of the
// optimizer out of its range (update_numbers.h); a regular expression that is
// none or matches no param.
absl::StatusOr<bool> AttachUpdates(Program& program, const PassOptions& options,
                                   PassContext& context);

}  // namespace asyra
