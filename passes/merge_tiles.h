// Undoes tiling for chosen ops: the K ops that do one thing on K tiles become
// one op on the whole. Tiles are joined before it and cut after it, except
// where both cancel.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

// The same op of every lane: op indices by lane.
using TileGroup = std::vector<int>;

// `program` (stage scheduled) with these groups merged, in an order that keeps
// to the old one as far as the merged ops' dependences let it. Collectives and
// waits are not merged here.
absl::StatusOr<Program> MergeTiles(const Program& program,
                                   const std::vector<TileGroup>& groups);

}  // namespace asyra
