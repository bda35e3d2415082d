// The lanes of a tiled program. They are read off the program itself:
// `tile` opens a lane, what reads only values of one lane belongs to it, and
// what reads several (`untile`) or none belongs to no lane.
#pragma once

#include <optional>
#include <vector>

#include "ir/program.h"
#include "passes/analysis/tile_place.h"

namespace asyra {

inline constexpr int kNoLane = -1;

struct Lanes {
  explicit Lanes(const Program& program);
  std::vector<int> of_op;
  int count = 0;
};

// What a value is a tile of: the type of the whole, where in that it was cut,
// and into how many.
struct TileOf {
  Type whole;
  TilePlace place;
  int64_t tiles = 0;
};

// By value: what it is a tile of, if it is one. Followed from `tile` along the
// factors of axis rules; where an attribute repeats the tile's shape and could
// be that of several wholes ([16] of [32], as [1, 16]), the one that the tiles
// are joined to, or else the one cut along the outermost dimension.
std::vector<std::optional<TileOf>> TilesOf(const Program& program,
                                           const Lanes& lanes);

// By value: the dimension along which it is a tile, or -1.
std::vector<int> TileDims(const Program& program, const Lanes& lanes);

}  // namespace asyra
