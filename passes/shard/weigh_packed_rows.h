// Weights of choices, and their gradients, without a row for every choice in
// the order of tokens.
//
// Backward of packed_combine multiplies a token's gradient by the weight of
// each of its choices and sorts these rows by expert; it also brings the
// experts' rows into the order of tokens, to multiply them by the gradient:
//
//   %m = mul(%s, %d) : f32[256, 2, 64]                 s [256, 2, 1]
//   %f = reshape(%m) {shape=[512, 64]} : f32[512, 64]  d [256, 1, 64]
//   %r = packed_dispatch(%f, %o) {group_size=512} : f32[512, 64]
//   %c = packed_collect(%u, %p) {group_size=256} : f32[256, 2, 64]
//   %n = mul(%c, %d) : f32[256, 2, 64]
//   %g = reduce_sum(%n) {dims=[2]} : f32[256, 2]
// becomes, but for reshapes,
//   %r = packed_dispatch(%d, %o, %s) {group_size=256} : f32[512, 64]
//   %g = packed_dot(%u, %p, %d) {group_size=256} : f32[256, 2]
//
// Gradients of rows that come from two matmuls, of gate and up, are added by
// the later one, as its residual.
#pragma once

#include "passes/pass.h"

namespace asyra {

// Changes what pack_expert_rows left; what something else reads, too, and rows
// of which devices have parts, stay.
absl::StatusOr<bool> WeighPackedRows(Program& program,
                                     const PassOptions& options,
                                     PassContext& context);

}  // namespace asyra
