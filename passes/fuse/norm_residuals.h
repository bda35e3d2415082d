// The sum behind a norm's gradient, as a residual connection has it.
#pragma once

#include "ir/program.h"

namespace asyra {

// Adds residuals in the gradients of norms of a local program. Where
//
//   %dx, %dscale = rms_norm_grad(%x, %scale, %dy)
//   %sum = add(%rest, %dx)
//
// and no other op reads %dx, the gradient adds %rest itself, so that %dx is
// neither written nor read. %rest is available before, no later collective is
// waited for, and nothing moves across a barrier. Returns the number of sums;
// costs are not considered, since no kernel does more than before.
int FuseNormResiduals(Program* program);

}  // namespace asyra
