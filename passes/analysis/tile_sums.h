// Sums over tiles: matmuls of tiles that are cut the same way, each but the
// first added to the one before in the op itself (ir/accumulation.h). They are
// one matmul of the values that the tiles make.
#pragma once

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "passes/analysis/lanes.h"

namespace asyra {

// Returns whether the ops, one of each lane in their order, are such a sum, and
// no other op reads an incomplete sum. `tiles` are TilesOf the program.
bool IsTileSum(const Program& program, const DefUse& uses, const Lanes& lanes,
               const std::vector<std::optional<TileOf>>& tiles,
               absl::Span<const int> ops);

}  // namespace asyra
