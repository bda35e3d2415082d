#include "simulator/packing.h"

#include <string_view>

namespace asyra {
namespace {

// So few runs go in a call each, in one launch, and are not packed: more of
// them where each has so many bytes.
constexpr int64_t kMostCalls = 64, kFewCalls = 8;
constexpr int64_t kLongRunBytes = 256 << 10;

// Runs that are apart where a value is cut along a dimension: one for each
// element of those before it.
int64_t Runs(const AttrMap& attrs, std::string_view dim, const Type& value) {
  int64_t runs = 1;
  int at = NormalizeDim(attrs.Int(dim), value.rank());
  for (int d = 0; d < at; ++d) runs *= value.dims[d].size;
  return runs;
}

// Of a block of so many bytes.
bool IsSplit(int64_t runs, int64_t bytes) {
  return runs <= kFewCalls ||
         (runs <= kMostCalls && bytes / runs >= kLongRunBytes);
}

}  // namespace

Packing PackingOf(const OpDef& def, const AttrMap& attrs, const Type& operand,
                  const Type& result) {
  switch (def.collective) {
    case CollectiveKind::kAllToAll:
      return {.before = Runs(attrs, "to", operand) > 1,
              .after = Runs(attrs, "from", result) > 1};
    case CollectiveKind::kReduceScatter:
      return {.before = !IsSplit(Runs(attrs, "dim", operand), result.bytes())};
    case CollectiveKind::kAllGather:
      return {.after = !IsSplit(Runs(attrs, "dim", result), operand.bytes())};
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kNone:
      break;
  }
  return {};
}

}  // namespace asyra
