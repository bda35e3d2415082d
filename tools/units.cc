#include "tools/units.h"

#include <iterator>
#include <string_view>

#include "fmt/format.h"

namespace asyra {

std::string Bytes(double bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{:.4g} {}", bytes, kUnits[unit]);
}

std::string Scaled(double value) {
  constexpr std::string_view kPrefixes[] = {"", "k ", "M ", "G ", "T ", "P "};
  size_t prefix = 0;
  for (; value >= 1000 && prefix + 1 < std::size(kPrefixes); ++prefix) {
    value /= 1000;
  }
  return fmt::format("{:.3g} {}", value, kPrefixes[prefix]);
}

}  // namespace asyra
