#include "simulator/cost/packing.h"

#include <algorithm>
#include <string_view>

#include "ir/gpu/grouped_calls.h"
#include "ir/weights/contiguous_runs.h"

namespace asyra {
namespace {

// Counts the runs of each part along the dimension that an attribute names.
int64_t RunsAlong(const AttrMap& attrs, std::string_view dim,
                  const Type& value) {
  return ContiguousRuns(value, NormalizeDim(attrs.Int(dim), value.rank()));
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
      before = RunsAlong(attrs, "to", operand) > 1;
      after = RunsAlong(attrs, "from", result) > 1;
      break;
    case CollectiveKind::kReduceScatter:
      before = IsPacked(RunsAlong(attrs, "dim", operand), result.bytes());
      break;
    case CollectiveKind::kAllGather:
      after = IsPacked(RunsAlong(attrs, "dim", result), operand.bytes());
      break;
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kShift:
    case CollectiveKind::kNone:
      break;
  }
  int64_t bytes = std::max(operand.bytes(), result.bytes());
  return {before ? bytes : 0, after ? bytes : 0};
}

}  // namespace asyra
