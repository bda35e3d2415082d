#include "simulator/packing.h"

#include <algorithm>
#include <string_view>

#include "ir/contiguous_runs.h"

namespace asyra {
namespace {

// Contiguous runs of a value that is cut along a dimension: one for each
// element of the dimensions before it.
int64_t ContiguousRuns(const AttrMap& attrs, std::string_view dim,
                       const Type& value) {
  int64_t runs = 1;
  int at = NormalizeDim(attrs.Int(dim), value.rank());
  for (int d = 0; d < at; ++d) runs *= value.dims[d].size;
  return runs;
}

bool IsPacked(int64_t runs, int64_t chunk_bytes) {
  return !UseGroupedCalls(runs, chunk_bytes / std::max<int64_t>(1, runs));
}

}  // namespace

Packing PackingOf(const OpDef& def, const AttrMap& attrs, const Type& operand,
                  const Type& result) {
  bool before = false, after = false;
  switch (def.collective) {
    case CollectiveKind::kAllToAll:
      before = ContiguousRuns(attrs, "to", operand) > 1;
      after = ContiguousRuns(attrs, "from", result) > 1;
      break;
    case CollectiveKind::kReduceScatter:
      before = IsPacked(ContiguousRuns(attrs, "dim", operand), result.bytes());
      break;
    case CollectiveKind::kAllGather:
      after = IsPacked(ContiguousRuns(attrs, "dim", result), operand.bytes());
      break;
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kNone:
      break;
  }
  int64_t bytes = std::max(operand.bytes(), result.bytes());
  return {before ? bytes : 0, after ? bytes : 0};
}

}  // namespace asyra
