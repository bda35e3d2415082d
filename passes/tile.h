// Cuts a local program into K tile streams (ASYRA 3.3.1).
//
// Tiling starts at the data inputs along one dimension (the batch, or what
// `dim` says) and flows along the factors of axis rules. Each op it reaches is
// done K times, on one tile each; weights are shared and nothing is computed
// twice. Where an op needs the dimension whole, the tiles are joined before it
// (a seam); where it sums over it, the tiles' results are added. Tiles cut
// what each device holds, so tiling never communicates.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// Options: tiles (int, default 2), dim (int, default 0) of the data inputs.
// Error: a data input whose dimension does not cut into that many tiles.
absl::StatusOr<bool> Tile(Program& program, const PassOptions& options,
                          PassContext& context);

}  // namespace asyra
