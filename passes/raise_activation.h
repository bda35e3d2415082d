// Activation functions from their formulas: gelu, gelu_tanh, silu, swiglu.
#pragma once

#include "passes/pass.h"

namespace asyra {

absl::StatusOr<bool> RaiseActivation(Program& program,
                                     const PassOptions& options,
                                     PassContext& context);

}  // namespace asyra
