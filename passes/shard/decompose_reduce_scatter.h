// Decomposes a reduce_scatter into moving the summands and reducing them.
//
//   %y = reduce_scatter(%p) {dim=1, axes=tp} : f32[4, 8@tp]
// becomes
//   %y.stack = stack_partial(%p) {axes=tp} : f32[2@tp, 4, 8]
//   %y.parts = all_to_all(%y.stack) {from=0, to=2, axes=tp} : f32[2, 4, 8@tp]
//   %y = reduce_sum(%y.parts) {dims=[0], keep=false} : f32[4, 8@tp]
//
// The reduction is then an op of the schedule, and the collective ends when the
// bytes have arrived. That pays on copy engines: a reduction inside the
// collective would wait for SMs that matmuls hold, and delay the collectives
// behind it. In exchange the summands take memory in the plan, as much as a
// device's operand. Like the collective, reduce_sum adds in more than 16 bits
// and rounds once.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// Applies to floats, one value at a time, over more than one device.
// Options: copyable (bool, default false): only where copy engines of the
// machine can carry the collective. Error: then without a machine.
absl::StatusOr<bool> DecomposeReduceScatter(Program& program,
                                            const PassOptions& options,
                                            PassContext& context);

}  // namespace asyra
