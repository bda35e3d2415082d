// ZeRO (Rajbhandari et al. 2020) as shardings: parameters that an axis of
// tokens (dp, sp, ep) does not shard are the same on all its devices, and so
// are the gradients and the optimizer's states. Each level cuts more of them
// over those axes:
//
//   0  nothing                  a gradient is all_reduced
//   1  states                   updates are made of parts; parameters gathered
//   2  states and gradients     a gradient is reduce_scattered
//   3  parameters too           a parameter is gathered before its first
//                               reader, and once more in backward (FSDP)
//
// The sums of elements are the same in every level. The norm of all gradients
// is a sum of other parts, equal to rounding.
#pragma once

#include "ir/program.h"
#include "passes/shard/axis_roles.h"
#include "passes/shard/sharding_plan.h"
#include "passes/shard/sharding_solver.h"

namespace asyra {

// Returns whether an axis of this role shards tokens, so that its devices have
// copies of what it does not shard: of all parameters, or, where it shards
// experts, of those of other layers.
bool HasReplicas(AxisRole role);

// `form` of a parameter of rank 2 or more, cut over all axes with replicas that
// shard nothing of it, each along the first dimension that it divides. Vectors
// stay: they are small, and a collective of them is but latency.
Type CutForm(const Type& form, const AxisRoles& roles, const Mesh& mesh);

}  // namespace asyra
