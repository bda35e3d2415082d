#include "simulator/text.h"

#include <cctype>

namespace asyra {

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
