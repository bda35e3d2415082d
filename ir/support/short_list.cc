#include "ir/support/short_list.h"

#include <algorithm>

#include "fmt/format.h"

namespace asyra {

std::string ShortList(const std::vector<std::string>& names) {
  constexpr size_t kMostNames = 4;
  if (names.empty()) return "none";
  size_t shown = std::min(names.size(), kMostNames);
  std::string list =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  return shown < names.size() ? list + ", ..." : list;
}

}  // namespace asyra
