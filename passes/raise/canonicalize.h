// Brings a global program into the canonical form that the raising passes
// match: no dead or repeated ops, constants folded, identities removed,
// reshapes and transposes merged and moved to where they cancel, matmuls with
// transposed operands written directly.
#pragma once

#include "passes/pass.h"

namespace asyra {

// Repeats to a fixed point; a second run changes nothing.
absl::StatusOr<bool> Canonicalize(Program& program, const PassOptions& options,
                                  PassContext& context);

}  // namespace asyra
