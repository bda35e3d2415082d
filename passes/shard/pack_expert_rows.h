// Experts compute the rows that tokens chose, and no free slots.
//
// A moe_dispatch that drops nothing has a slot for every choice that could be
// made, of which a token makes few: of 128 experts and 8 choices, a sixteenth.
//
//   %r = moe_dispatch(%x, %e) {num_experts=8} : f32[8, 256@dp, 64]
//   %u = grouped_matmul(%r, %w) : f32[8, 256@dp, 96]
//   %y = moe_combine(%u, %e, %s) : f32[256@dp, 64]
// becomes
//   %p, %o, %n = moe_sort(%e) {num_experts=8, group_size=128}
//   %r = packed_dispatch(%x, %o) {group_size=128} : f32[512@dp, 64]
//   %u = packed_matmul(%r, %w, %n) : f32[512@dp, 96]
//   %y = packed_combine(%u, %p, %s) {group_size=128} : f32[256@dp, 64]
//
// and backward, which sends gradients along the same choices, likewise.
#pragma once

#include "passes/pass.h"

namespace asyra {

// All ops between the dispatches and combines of one choice of experts, or none
// of them: elementwise ops, matmuls and their gradients, sums over slots, and
// reshapes and slices of what is in a row. Rows that are sent to other devices
// stay as they are, and so does what some other op reads. Option groups: sorted
// groups of a device's tokens, which tiles may cut; 0: one on a mesh of one
// device, else at most 8, each with many rows of every expert. Errors: groups
// below 0, or that do not divide the tokens.
absl::StatusOr<bool> PackExpertRows(Program& program,
                                    const PassOptions& options,
                                    PassContext& context);

}  // namespace asyra
