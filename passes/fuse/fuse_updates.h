// The optimizer's updates as few kernels, not one for each parameter
// (multi-tensor updates).
#pragma once

#include "ir/program.h"
#include "simulator/cost/cost_model.h"

namespace asyra {

// Joins, in a scheduled program, updates
//
//   %a.new, %a.m.new, %a.v.new = adamw(%a, %a.grad, %a.m, %a.v, %rate, %step,
//                                      %scale)
//
// of several parameters, with equal attributes and on one stream, into one
// multi_adamw. Joins only updates whose gradients are available before %scale
// is, as they are where it clips them by their norm, and whose results nothing
// but the program's outputs reads: so that no memory is held for longer.
//
// It takes the place of one of them. Behind others may be waits for
// collectives, in front of others updates whose results are gathered: the one
// with which the simulated step is shortest is taken, the last without `costs`.
// Returns how many updates are part of a joint one.
int FuseUpdates(Program* program, const CostModel* costs);

}  // namespace asyra
