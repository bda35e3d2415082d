#include "simulator/text.h"

#include <cctype>
#include <cmath>

#include "fmt/format.h"

namespace asyra {

std::string BytesText(int64_t bytes) {
  constexpr double kMib = 1 << 20, kGib = 1 << 30;
  auto count = static_cast<double>(bytes);
  if (std::abs(count) >= kGib) return fmt::format("{:.2f} GiB", count / kGib);
  if (std::abs(count) >= kMib) return fmt::format("{:.2f} MiB", count / kMib);
  return fmt::format("{} bytes", bytes);
}

std::string TimeText(double us) {
  if (std::abs(us) >= 1e6) return fmt::format("{:.2f} s", us / 1e6);
  if (std::abs(us) >= 1e3) return fmt::format("{:.2f} ms", us / 1e3);
  return fmt::format("{:.1f} us", us);
}

std::string NamePattern(std::string_view name) {
  std::string pattern;
  for (char c : name) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) {
      pattern += c;
    } else if (pattern.empty() || pattern.back() != '*') {
      pattern += '*';
    }
  }
  return pattern;
}

std::string FitName(const std::string& name, size_t width) {
  if (name.size() <= width) return name;
  return "..." + name.substr(name.size() - width + 3);
}

double Percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

}  // namespace asyra
