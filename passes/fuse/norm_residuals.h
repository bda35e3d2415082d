// The sum behind a norm's gradient, as a residual connection has it.
#pragma once

#include "ir/program.h"

namespace asyra {

// Of a local program. Where
//
//   %dx, %dscale = rms_norm_grad(%x, %scale, %dy)
//   %sum = add(%rest, %dx)
//
// and nobody else reads %dx, the gradient adds %rest itself, so that %dx is
// neither written nor read. %rest is there before, no later collective is
// waited for, and nothing moves across a barrier. Returns how many; no cost is
// asked, since no kernel does more than before.
int FuseNormResiduals(Program* program);

}  // namespace asyra
