#include "ir/support/units.h"

#include <cmath>
#include <iterator>
#include <string_view>

#include "fmt/format.h"

namespace asyra {

std::string TimeText(double us) {
  constexpr std::string_view kUnits[] = {"us", "ms", "s"};
  size_t unit = 0;
  // Values that would print as 10000.0 use the next unit.
  for (; std::abs(us) >= 9999.95 && unit + 1 < std::size(kUnits); ++unit) {
    us /= 1000;
  }
  return fmt::format("{:.1f} {}", us, kUnits[unit]);
}

std::string TimeChangeText(double us) {
  return (us >= 0 ? "+" : "") + TimeText(us);
}

std::string BytesText(int64_t bytes) {
  return std::abs(bytes) < 1024 ? fmt::format("{} bytes", bytes)
                                : BytesText(static_cast<double>(bytes));
}

std::string BytesText(double bytes) {
  if (std::abs(bytes) < 1024) return fmt::format("{:.0f} bytes", bytes);
  constexpr std::string_view kUnits[] = {"KiB", "MiB", "GiB"};
  size_t unit = 0;
  bytes /= 1024;
  for (; std::abs(bytes) >= 1024 && unit + 1 < std::size(kUnits); ++unit) {
    bytes /= 1024;
  }
  return fmt::format("{:.{}f} {}", bytes, std::abs(bytes) < 99.995 ? 2 : 1,
                     kUnits[unit]);
}

std::string CountText(double count) {
  constexpr std::string_view kPrefixes[] = {"", "k ", "M ", "G ", "T ", "P "};
  size_t prefix = 0;
  for (; count >= 1000 && prefix + 1 < std::size(kPrefixes); ++prefix) {
    count /= 1000;
  }
  return fmt::format("{:.3g} {}", count, kPrefixes[prefix]);
}

}  // namespace asyra
