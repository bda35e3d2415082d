// Weights that are trained.
#pragma once

#include "passes/pass.h"

namespace asyra {

// Makes the parameters of a model (parameters.h), without those that `freeze`
// matches, inputs of role param. 16-bit ones become f32, which small updates
// need, and are cast for their readers.
// A weight whose data is that of an earlier one, also transposed, is the same
// parameter (tie_weights.h), which a remark says.
// Other float weights are named in remarks, with the reason.
// Errors: no parameters; a regular expression that is none, or matches none of
// them or all.
absl::StatusOr<bool> MarkParams(Program& program, const PassOptions& options,
                                PassContext& context);

}  // namespace asyra
