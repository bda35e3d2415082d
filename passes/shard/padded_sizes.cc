#include "passes/shard/padded_sizes.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/support/status.h"
#include "passes/shard/pad_dimensions.h"

namespace asyra {
namespace {

constexpr std::string_view kNone = "none";

absl::StatusOr<std::map<int64_t, int64_t>> ReadSizes(std::string_view text) {
  std::map<int64_t, int64_t> sizes;
  std::vector<std::string> pairs = absl::StrSplit(std::string(text), ',');
  for (const std::string& pair : pairs) {
    std::vector<std::string> numbers = absl::StrSplit(pair, '=');
    int64_t from = 0, to = 0;
    if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &from) ||
        !absl::SimpleAtoi(numbers[1], &to) || to <= from || from < 1) {
      return Invalid("sizes '{}': expected SIZE=PADDED,... or none, got '{}'",
                     text, pair);
    }
    sizes[from] = to;
  }
  return sizes;
}

}  // namespace

std::string PaddedSizes(const Program& program) {
  std::map<int64_t, int64_t> sizes;
  for (const Input& input : program.inputs) {
    const Type& type = program.type(input.value);
    if (!IsWeight(input)) continue;
    for (size_t d = 0; d < input.stored.size(); ++d) {
      int64_t to = type.size(static_cast<int>(d));
      if (input.stored[d] != to) sizes[input.stored[d]] = to;
    }
  }
  if (sizes.empty()) return std::string(kNone);
  return absl::StrJoin(sizes, ",", absl::PairFormatter("="));
}

absl::StatusOr<bool> PadSizes(Program& program, std::string_view sizes,
                              bool trained) {
  bool changed = false;
  if (sizes == kNone) return false;
  ASYRA_ASSIGN_OR_RETURN(auto read, ReadSizes(sizes));
  for (auto [size, to] : read) {
    ASYRA_ASSIGN_OR_RETURN(std::optional<Program> padded,
                           PadDimensions(program, size, to, trained));
    if (!padded.has_value()) continue;
    program = *std::move(padded);
    changed = true;
  }
  return changed;
}

}  // namespace asyra
