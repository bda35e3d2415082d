// Normalizations from their decompositions: rms_norm and layer_norm.
#pragma once

#include "passes/pass.h"

namespace asyra {

// x / sqrt(mean(x^2) + eps) * scale, and the same of x - mean(x) with an
// optional bias, over the last dimension, in any spelling and order. Casts to
// a wider type around them go: the fused ops compute in f32 or wider anyway.
absl::StatusOr<bool> RaiseNorm(Program& program, const PassOptions& options,
                               PassContext& context);

}  // namespace asyra
