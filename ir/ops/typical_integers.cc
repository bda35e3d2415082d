#include "ir/ops/typical_integers.h"

#include <algorithm>

#include "ir/ops/attention_places.h"

namespace asyra {
namespace {

// Sorted in groups, every expert has equally many rows.
int64_t EndOf(const OpCall& local, const Type& ends, int64_t element) {
  const Type& rows =
      local.def.name == "packed_expand" ? local.results[0] : local.operands[0];
  int64_t group_rows = rows.dims.end()[-2].size / ends.dims.end()[-2].size;
  int64_t experts = ends.dims.back().size;
  return (element % experts + 1) * group_rows / experts;
}

// Masks hide keys behind their rows, or none where rows have the same; lengths
// are full; documents have equal lengths.
std::optional<int64_t> KeyOfExtra(const OpCall& local, int operand,
                                  int64_t element) {
  const Type& type = local.operands[operand];
  if (IsFloat(type.dtype)) return std::nullopt;
  if (type.dtype == DType::kBool) {
    int64_t rows = type.size(2), keys = type.size(3);
    int64_t row = element / keys % rows;
    return rows == 1 || element % keys <= row + keys - rows ? 1 : 0;
  }
  ops::AttentionSizes sizes(local.operands);
  if (type.rank() == 1) return sizes.t;
  int64_t length = std::max<int64_t>(1, sizes.t / local.attrs.Int("documents"));
  return (sizes.t - sizes.s + element % sizes.s) / length * length;
}

// Places and sources of a group stay below this.
int64_t GroupRows(const OpCall& local) {
  int64_t group_size = local.attrs.Int("group_size");
  const Type& indices = local.operands[1];
  if (local.def.name != "packed_dispatch") {
    return group_size * indices.dims.back().size;
  }
  int64_t tokens = local.operands[0].dims.end()[-2].size;
  return group_size * (indices.dims.back().size / std::max<int64_t>(tokens, 1));
}

}  // namespace

std::optional<int64_t> TypicalInteger(const OpCall& local, int operand,
                                      int64_t element) {
  constexpr int64_t kStep = 7919;  // a prime, so that all of a range is met
  std::string_view name = local.def.name;
  const Type& type = local.operands[operand];
  if (name == "mask_lengths") return 1;
  if (name == "attention" || name == "attention_grad") {
    return KeyOfExtra(local, operand, element);
  }
  if (IsFloat(type.dtype)) return std::nullopt;
  if (name == "moe_sort") {
    return element * kStep % local.attrs.Int("num_experts");
  }
  if (!name.starts_with("packed_")) return std::nullopt;
  if (local.def.operands[operand].name == "ends") {
    return EndOf(local, type, element);
  }
  return element * kStep % std::max<int64_t>(GroupRows(local), 1);
}

}  // namespace asyra
