// Activation functions from their formulas: gelu, gelu_tanh,
// quick_gelu, silu, and each of them (or relu) times a gate: swiglu, geglu, ...
#pragma once

#include "passes/pass.h"

namespace asyra {

absl::StatusOr<bool> RaiseActivation(Program& program,
                                     const PassOptions& options,
                                     PassContext& context);

}  // namespace asyra
