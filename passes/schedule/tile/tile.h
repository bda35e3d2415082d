// Cuts a local program into K lanes (ASYRA 3.3.1).
//
// Tiling starts at the data inputs along one dimension, the batch or the
// sequence, and flows along the factors of axis rules. Each op that allows it
// runs K times, once for each tile; weights are shared and nothing is computed
// twice. Where an op needs the dimension whole, the tiles are joined before it
// (a join point) and cut again after it, as soon as an op allows tiles; where
// it reduces over the dimension, the tiles' results are added. Tiles cut what
// each device holds, so tiling never communicates, and they are cut inside the
// axes that shard the dimension (tile_place.h), so that they remain tiles when
// collectives gather, scatter or exchange it. tile_plan.h says what is tiled.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/schedule/tile/tile_plan.h"

namespace asyra {

// Options: tiles (int, default 2), dim (string: "batch", the default, and
// "sequence", the dimensions of the data inputs with these labels
// (dim_labels.h), "auto", the one of these along which more communication is
// tiled, or a number: that dimension of the data inputs).
// Errors: another dim; one that no data input has, or that no data input can
// cut into that many tiles, with the dimensions considered.
absl::StatusOr<bool> Tile(Program& program, const PassOptions& options,
                          PassContext& context);

struct TiledProgram {
  Program program;
  // The op's first result of each tile, by op of the program before; none of an
  // op that runs as a whole.
  std::vector<std::vector<ValueId>> parts;
};

// Tiles `program` as a plan of its planner says, each op's tiles one after the
// other.
absl::StatusOr<TiledProgram> TileAsPlanned(const Program& program,
                                           int64_t tiles,
                                           const TilePlanner& planner,
                                           const TilePlan& plan);

}  // namespace asyra
