#include "ir/tile_place.h"

namespace asyra {

std::optional<FactorPlace> FactorAt(const DimFactors& factors,
                                    const AxisRule& rule, int64_t blocks,
                                    int64_t tiles) {
  int64_t outer = 1;
  for (FactorId id : factors) {
    int64_t size = rule.factors[id].size;
    if (size == 0 || blocks % outer != 0) return std::nullopt;
    int64_t inside = blocks / outer;
    if (size % (inside * tiles) == 0) return FactorPlace{id, inside};
    outer *= size;
  }
  return std::nullopt;
}

absl::InlinedVector<TilePlace, 2> PlacesOf(const FactorPlace& place,
                                           const OperandFactors& dims,
                                           const AxisRule& rule) {
  absl::InlinedVector<TilePlace, 2> places;
  for (size_t d = 0; d < dims.size(); ++d) {
    int64_t outer = 1;
    for (FactorId id : dims[d]) {
      if (id == place.factor) {
        places.push_back({static_cast<int>(d), outer * place.blocks});
      }
      outer *= rule.factors[id].size;
    }
  }
  return places;
}

int64_t BlocksOnDevice(const Type& type, const TilePlace& place, int64_t tiles,
                       const Mesh& mesh) {
  const Dim& dim = type.dims[place.dim];
  int64_t shards = mesh.size(dim.axes);
  if (dim.size == 0 || place.blocks % shards != 0 ||
      dim.size % (place.blocks * tiles) != 0) {
    return 0;
  }
  return place.blocks / shards;
}

}  // namespace asyra
