// The place where a value is cut into tiles, and the corresponding one in the
// factors of an op.
//
// A dimension of global size n is seen as [blocks, tiles, n / (blocks * tiles)]
// in row-major order; tile t is part t of every block. Shards are outermost in
// a dimension too, so blocks that the axes' devices share evenly are *inside*
// the shards: each device cuts its own, and gathering, scattering or exchanging
// the tiles of a value gives the tiles of the gathered, scattered or exchanged
// one. The place, counted globally, does not change under redistribution; how
// many blocks a device has does.
//
// The same holds one level down: a place is inside one factor of a dimension
// whose outer factors count as blocks, and follows that factor to every operand
// and result of an op, through reshapes that merge or split dimensions.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/axis_rule.h"
#include "ir/mesh.h"
#include "ir/type.h"

namespace asyra {

struct TilePlace {
  int dim = 0;
  int64_t blocks = 1;  // of the global dimension
  friend bool operator==(const TilePlace& a, const TilePlace& b) {
    return a.dim == b.dim && a.blocks == b.blocks;
  }
};

struct FactorPlace {
  FactorId factor = -1;
  int64_t blocks = 1;  // of the factor
  friend bool operator==(const FactorPlace& a, const FactorPlace& b) {
    return a.factor == b.factor && a.blocks == b.blocks;
  }
};

// The factor inside which a dimension of these factors is cut into `tiles` (at
// least 2); none if tiles are not parts of a single factor.
std::optional<FactorPlace> FactorAt(const DimFactors& factors,
                                    const AxisRule& rule, int64_t blocks,
                                    int64_t tiles);

// The dimensions of an operand or result in which a place of a factor is found:
// none, one, or several, along which one tile cannot be cut.
absl::InlinedVector<TilePlace, 2> PlacesOf(const FactorPlace& place,
                                           const OperandFactors& dims,
                                           const AxisRule& rule);

// The `blocks` attribute of `tile` and `untile`: how many of the blocks each
// device has. 0 where they are not inside the shards, or do not have `tiles`
// equal parts. `type` is that of the whole value.
int64_t BlocksOnDevice(const Type& type, const TilePlace& place, int64_t tiles,
                       const Mesh& mesh);

}  // namespace asyra
