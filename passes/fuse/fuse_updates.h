// The optimizer's updates as few kernels, not one for each parameter
// (multi-tensor updates).
#pragma once

#include "ir/program.h"

namespace asyra {

// Of a scheduled program. Joins
//
//   %a.new, %a.m.new, %a.v.new = adamw(%a, %a.grad, %a.m, %a.v, %rate, %step,
//                                      %scale)
//
// of several parameters, with equal attributes and on one stream, into one
// multi_adamw where the last of them is. Only updates whose gradients are there
// before %scale is, as they are where it clips them by their norm, and whose
// results nothing but the program's outputs reads: so that nothing begins
// later than before and no memory is held for longer. Returns how many updates
// are part of a joint one.
int FuseUpdates(Program* program);

}  // namespace asyra
