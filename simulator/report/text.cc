#include "simulator/report/text.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace asyra {
namespace {

bool IsDigit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}
bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool IsType(std::string_view word) {
  static constexpr std::string_view kTypes[] = {
      "bf16", "f8", "f16", "f32", "f64", "i8", "i16", "i32", "i64", "u8"};
  return std::find(std::begin(kTypes), std::end(kTypes), word) !=
         std::end(kTypes);
}

}  // namespace

std::string StarName(std::string_view name) {
  std::string pattern;
  for (size_t at = 0; at < name.size();) {
    size_t end = at;
    while (end < name.size() && IsWord(name[end])) ++end;
    std::string_view word = name.substr(at, std::max<size_t>(end - at, 1));
    at += word.size();
    if (IsType(word)) {
      pattern += word;
      continue;
    }
    for (char c : word) {
      if (!IsDigit(c)) {
        pattern += c;
      } else if (pattern.empty() || pattern.back() != '*') {
        pattern += '*';
      }
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
