#include "ir/dim_names.h"

#include "absl/strings/escaping.h"
#include "fmt/format.h"

namespace asyra {

std::string_view DimName(const DimNames& names, std::string_view input,
                         int dim) {
  auto found = names.find(input);
  if (found == names.end() || dim < 0 ||
      static_cast<size_t>(dim) >= found->second.size()) {
    return "";
  }
  return found->second[dim];
}

std::string DimText(const DimNames& names, std::string_view input, int dim) {
  std::string_view name = DimName(names, input, dim);
  return name.empty() ? fmt::format("dim {}", dim)
                      : fmt::format("dim {} \"{}\"", dim,
                                    absl::Utf8SafeCEscape(std::string(name)));
}

}  // namespace asyra
