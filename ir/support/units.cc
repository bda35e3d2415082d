#include "ir/support/units.h"

#include <cmath>
#include <iterator>
#include <string_view>

#include "fmt/format.h"

namespace asyra {
namespace {

struct TimeUnit {
  std::string_view name;
  double us;
};
constexpr TimeUnit kUnits[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}};

// The index of the unit; a time that would print as 1000.0 takes the next.
size_t UnitOf(double us) {
  size_t unit = 0;
  while (unit + 1 < std::size(kUnits) &&
         std::abs(us) / kUnits[unit].us >= 999.95) {
    ++unit;
  }
  return unit;
}

}  // namespace

std::string TimeText(double us) {
  size_t unit = UnitOf(us);
  double count = us / kUnits[unit].us;
  int digits = unit > 0 && std::abs(count) < 9.995 ? 2 : 1;
  return fmt::format("{:.{}f} {}", count, digits, kUnits[unit].name);
}

TimeColumn::TimeColumn(double largest_us)
    : unit_(UnitOf(largest_us)),
      digits_(unit_ > 0 && largest_us / kUnits[unit_].us < 99.995 ? 2 : 1) {}

std::string TimeColumn::Text(double us) const {
  return fmt::format("{:.{}f} {}", us / kUnits[unit_].us, digits_,
                     kUnits[unit_].name);
}

std::string TimeChangeText(double us) {
  return (us >= 0 ? "+" : "") + TimeText(us);
}

std::string EnergyText(double joules) {
  constexpr std::string_view kUnits[] = {"uJ", "mJ", "J"};
  double count = joules * 1e6;
  size_t unit = 0;
  for (; count >= 999.5 && unit + 1 < std::size(kUnits); ++unit) count /= 1000;
  int digits = count < 9.995 ? 2 : count < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", count, digits, kUnits[unit]);
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

BytesColumn::BytesColumn(int64_t largest) : unit_(0), digits_(2) {
  auto count = static_cast<double>(std::abs(largest));
  for (; count >= 1024 && unit_ < 3; ++unit_) count /= 1024;
  if (count >= 99.995) digits_ = 1;
}

std::string BytesColumn::Text(int64_t bytes) const {
  constexpr std::string_view kUnits[] = {"bytes", "KiB", "MiB", "GiB"};
  if (unit_ == 0) return BytesText(bytes);
  double unit = std::pow(1024.0, static_cast<double>(unit_));
  return fmt::format("{:.{}f} {}", static_cast<double>(bytes) / unit, digits_,
                     kUnits[unit_]);
}

std::string CountText(double count) {
  constexpr std::string_view kPrefixes[] = {"", "k ", "M ", "G ", "T ", "P "};
  size_t prefix = 0;
  for (; count >= 1000 && prefix + 1 < std::size(kPrefixes); ++prefix) {
    count /= 1000;
  }
  return fmt::format("{:.3g} {}", count, kPrefixes[prefix]);
}

std::string EnoughGib(int64_t bytes) {
  constexpr double kGib = 1 << 30;
  double gib = static_cast<double>(bytes) / kGib;
  int digits = gib >= 1 ? 2 : gib >= 0.01 ? 4 : 6;
  double unit = std::pow(10, -digits);
  double up = std::ceil(gib / unit) * unit;
  // The last digit of a quotient may be wrong.
  while (static_cast<int64_t>(up * kGib) < bytes) up += unit;
  return fmt::format("{:.{}f} GiB", up, digits);
}

}  // namespace asyra
