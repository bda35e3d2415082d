// Rotary position embedding from its decomposition.
#pragma once

#include "passes/pass.h"

namespace asyra {

// x * cos + concat(-x[hi], x[lo]) * sin over the last dimension of a rank 4
// value, heads in front of positions or behind them, where both halves of cos
// and of sin are provably equal; the same written on halves; and the rotation
// of only the first elements, with the others unchanged. cos and sin become
// tables of half the width, [S, R/2] or [B, S, R/2]; if they are constant, they
// are computed here and become weights.
absl::StatusOr<bool> RaiseRotary(Program& program, const PassOptions& options,
                                 PassContext& context);

}  // namespace asyra
