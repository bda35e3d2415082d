// Brings a global program into the one form that the raising passes match and
// the later passes like: no dead or repeated ops, constants folded, identities
// gone, reshapes and transposes merged and moved towards where they cancel,
// matmuls with transposed operands written directly.
#pragma once

#include "passes/pass.h"

namespace asyra {

// Repeats to a fixed point; a second run changes nothing.
absl::StatusOr<bool> Canonicalize(Program& program, const PassOptions& options,
                                  PassContext& context);

}  // namespace asyra
