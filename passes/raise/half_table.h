// Tables of cosines and sines whose last dimension repeats itself.
#pragma once

#include <optional>

#include "ir/support/name_pattern.h"
#include "passes/rewrite/rewriter.h"

namespace asyra {

// The elements of a row that form a rotated pair.
enum class Pairing {
  kHalves,       // i and i + R / 2
  kInterleaved,  // 2 i and 2 i + 1
};

// Returns the first element of each pair of `value` along its last dimension,
// if the second is provably the same: through concat(f, f) or a repeat under
// elementwise ops and views, or by stored data. kNoValue if it cannot be
// proven.
absl::StatusOr<ValueId> HalfOf(Rewriter& to, ValueId value, Pairing pairing);

// The layout in which `rotary` gets x, [B, S, .., D] or [B, .., S, D] with any
// number of dimensions for heads, and the tables that broadcast to it.
struct RotaryLayout {
  int rank = 0;
  int positions = 0;  // dimension of x that S is
  bool heads_first = false;
  int64_t width = 0;  // of the tables
  Shape of_x;         // of rank 4: [B, S, H, D] or [B, H, S, D]
};

// Derived from the table: heads are the dimensions where it has size 1. None if
// it varies over heads.
std::optional<RotaryLayout> FindRotaryLayout(const Rewriter& to, ValueId table,
                                             const Shape& x);

// cos or sin of half the rotated width, as rotary takes it: [S, width] or [B,
// S, width]; kNoValue if it does not fit the layout.
absl::StatusOr<ValueId> AsRotaryTable(Rewriter& to, ValueId value,
                                      const RotaryLayout& layout);

// Replaces the cos and sin of rotary ops that depend on nothing but constants
// and weights with data by new weights, which have the name of the model's
// tensor that they are computed from; returns whether there were any.
// Those of weights whose names match `trained` (null: none) stay, as do sines
// that weights of several elements scale or move: these may be parameters.
absl::StatusOr<bool> FoldRotaryTables(Program& program,
                                      const NamePattern* trained);

}  // namespace asyra
