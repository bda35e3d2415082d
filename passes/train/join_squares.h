// The norm of all gradients by few kernels, not two for each parameter.
#pragma once

#include "passes/pass.h"

namespace asyra {

// Joins sums of squares of a local program. Where it adds, as attach_updates
// does,
//
//   %a.squares = reduce_sum_square(%a.grad), %b.squares = ...
//   %sum = add(%a.squares, %b.squares), ...
//
// in f32, neighbours of a sum become one sum_squares. A joint op has at most 32
// tensors and 512 MiB, where a single one has no more: it can begin when the
// last of its gradients is available, so that little is left to do then. Joined
// are only gradients of at most 1 MiB and those that have a reader which needs
// the sum, as updates do that clip by the norm: they are kept for it anyway.
absl::StatusOr<bool> JoinSquares(Program& program, const PassOptions& options,
                                 PassContext& context);

}  // namespace asyra
