// Correspondence of dimensions of values: tags of some dimensions are
// propagated forward along the factors of axis rules.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "ir/axis_rule.h"
#include "ir/program.h"

namespace asyra {

// A dimension as a run of tagged pieces, outermost first: [batch*seq] keeps
// both tags when a reshape merges the two and another splits them again.
struct DimPiece {
  int64_t size = 1;
  int tag = 0;  // 0: none
};
using DimPieces = absl::InlinedVector<DimPiece, 2>;

// Initial tags, by value and dimension: of program inputs, and of dimensions
// that an op creates.
using DimTags = absl::flat_hash_map<std::pair<ValueId, int>, int>;

struct DimFlow {
  // `rules` by op of `program`.
  DimFlow(const Program& program, const std::vector<AxisRule>& rules,
          const DimTags& tags);

  std::vector<std::vector<DimPieces>> values;   // by value, by dimension
  std::vector<std::vector<DimPieces>> factors;  // by op, by factor
  // Different tags of the same factor of some op: the same dimension of the
  // model, given in several inputs.
  std::vector<std::pair<int, int>> met;
};

}  // namespace asyra
