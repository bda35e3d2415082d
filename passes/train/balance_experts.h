// Terms of the loss that keep mixtures of experts balanced.
#pragma once

#include "passes/pass.h"

namespace asyra {

// Adds to the loss that attach_loss left, for the moe_routers of all layers
// together, as if their tokens were one batch:
//   balance * E sum over experts of (choices / tokens) (probabilities / tokens)
//   z * mean over tokens of log(sum of exp(logits))^2
// where probabilities are the softmax of a router's logits and choices, which
// have no gradient, count how often each of the E experts was chosen: k where
// all are chosen equally often, of k choices a token. Both are means, so that
// they are multiplied by the number of terms of the loss, by which updates
// divide. Tokens that have no label count as others.
// Option balance, z: the weights of the terms; with both 0 nothing changes.
// Errors: a weight below 0 or not finite; no moe_router, or several with other
// numbers of experts; no outputs of attach_loss.
absl::StatusOr<bool> BalanceExperts(Program& program,
                                    const PassOptions& options,
                                    PassContext& context);

}  // namespace asyra
