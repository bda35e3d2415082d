#include "simulator/packing.h"

#include <string_view>

namespace asyra {
namespace {

// So few runs go in a call each, in one launch, and are not packed.
constexpr int64_t kMostCalls = 8;

// Runs that are apart where a value is cut along a dimension: one for each
// element of those before it.
int64_t Runs(const AttrMap& attrs, std::string_view dim, const Type& value) {
  int64_t runs = 1;
  int at = NormalizeDim(attrs.Int(dim), value.rank());
  for (int d = 0; d < at; ++d) runs *= value.dims[d].size;
  return runs;
}

}  // namespace

Packing PackingOf(const OpDef& def, const AttrMap& attrs, const Type& operand,
                  const Type& result) {
  switch (def.collective) {
    case CollectiveKind::kAllToAll:
      return {.before = Runs(attrs, "to", operand) > 1,
              .after = Runs(attrs, "from", result) > 1};
    case CollectiveKind::kReduceScatter:
      return {.before = Runs(attrs, "dim", operand) > kMostCalls};
    case CollectiveKind::kAllGather:
      return {.after = Runs(attrs, "dim", result) > kMostCalls};
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kNone:
      break;
  }
  return {};
}

}  // namespace asyra
