// Weights that are trained.
#pragma once

#include "passes/pass.h"

namespace asyra {

// Makes the parameters of a model (parameters.h), with those that `train`
// matches and without those that `freeze` does, inputs of role param. 16-bit
// ones become f32, which small updates need, and are cast for their readers.
// Other float weights are named in remarks, with the reason, and so are scalars
// that are trained.
// Errors: no parameters; those of Choose.
absl::StatusOr<bool> MarkParams(Program& program, const PassOptions& options,
                                PassContext& context);

}  // namespace asyra
