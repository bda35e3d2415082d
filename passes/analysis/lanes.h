// The lanes of a tiled program, found from the program itself: `tile` opens a
// lane, an op that reads values of only one lane belongs to it, and an op that
// reads several lanes (`untile`) or none belongs to no lane. A matmul that is
// added to the sum over the lanes before (ir/accumulation.h) belongs to its
// own; the sum belongs to none.
#pragma once

#include <optional>
#include <vector>

#include "ir/program.h"
#include "ir/tile_place.h"

namespace asyra {

inline constexpr int kNoLane = -1;

struct Lanes {
  explicit Lanes(const Program& program);
  std::vector<int> of_op;
  int count = 0;
};

// Describes a tile: the type of the whole value, where it was cut, and into how
// many tiles.
struct TileOf {
  Type whole;
  TilePlace place;
  int64_t tiles = 0;

  bool operator==(const TileOf&) const = default;
};

// Returns, by value, what it is a tile of, if it is one. Propagated from `tile`
// along the factors of axis rules. Where an attribute repeats the tile's shape
// and several wholes are possible ([16] of [32], as [1, 16]), the one that
// `untile` gives, or else the one cut along the outermost dimension.
std::vector<std::optional<TileOf>> TilesOf(const Program& program,
                                           const Lanes& lanes);

}  // namespace asyra
