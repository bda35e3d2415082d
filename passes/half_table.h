// Tables of cosines and sines whose last dimension repeats itself.
#pragma once

#include "passes/rewriter.h"

namespace asyra {

// The first half of `value` along its last dimension, if the second half is
// provably the same: through concat(f, f) under elementwise ops and views, or
// by stored data. kNoValue if it cannot be proven.
absl::StatusOr<ValueId> HalfOf(Rewriter& to, ValueId value);

// cos or sin as rotary takes it: `value` broadcasts to x of rank 4 with
// positions in dimension `s` (1 or 2); `width` is the size the last dimension
// has. Returns [S, width] or [B, S, width], or kNoValue when the value varies
// over heads.
absl::StatusOr<ValueId> AsRotaryTable(Rewriter& to, ValueId value,
                                      const Type& x, int s, int64_t width);

// Replaces the cos and sin of rotary ops that depend on nothing but constants
// and weights with data by new weights; returns whether there were any.
absl::StatusOr<bool> FoldRotaryTables(Program& program);

}  // namespace asyra
