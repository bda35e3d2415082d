// Undoes tiling for chosen ops: K ops that do the same on K tiles become one op
// on the whole. Tiles are joined before it and cut after it, except where both
// cancel. K matmuls that are added one to the other (passes/analysis/
// tile_sums.h) become one matmul, the sum.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/analysis/lanes.h"

namespace asyra {

// The same op of every lane: op indices by lane.
using TileGroup = std::vector<int>;

// The lanes, tiles and uses of a tiled program.
struct TileFacts {
  explicit TileFacts(const Program& program)
      : lanes(program), tiles(TilesOf(program, lanes)), uses(program) {}

  Lanes lanes;
  std::vector<std::optional<TileOf>> tiles;  // by value
  DefUse uses;
};

// Merges different groups of one program.
class TileMerger {
 public:
  // `program`, of stage scheduled, must outlive the merger and not change.
  explicit TileMerger(const Program& program)
      : program_(program), facts_(program) {}

  // Returns the program with these groups merged, in the old order as far as
  // the merged ops' dependences allow. Collectives and waits are not merged
  // here. `new_ops`, unless null, gets for each old op the op of the new
  // program that replaces it; -1: none. Errors: merged ops that would wait for
  // each other, a group whose results are neither tiles of one value nor their
  // sum.
  absl::StatusOr<Program> Merge(const std::vector<TileGroup>& groups,
                                std::vector<int>* new_ops = nullptr) const;

  const Program& program() const { return program_; }
  const TileFacts& facts() const { return facts_; }

 private:
  const Program& program_;
  const TileFacts facts_;
};

}  // namespace asyra
