#include "executor/tuning/tuning_results.h"

#include <algorithm>
#include <charconv>

#include "fmt/format.h"

namespace asyra {

std::string ToText(const TuningResult& result) {
  return fmt::format("{}\t{}", result.us, result.value);
}

std::optional<TuningResult> ParseTuningResult(std::string_view text) {
  size_t tab = text.find('\t');
  if (tab == std::string_view::npos) return std::nullopt;
  TuningResult result{std::string(text.substr(tab + 1))};
  const char* end = text.data() + tab;
  auto [at, error] = std::from_chars(text.data(), end, result.us);
  if (error != std::errc() || at != end ||
      result.value.find_first_of("\t\n") != std::string::npos) {
    return std::nullopt;
  }
  return result;
}

std::string ToText(const TuningResults& results) {
  std::string text;
  for (const auto& [key, result] : results) {
    text += fmt::format("{}\t{}\n", key, ToText(result));
  }
  return text;
}

TuningResults ParseTuningResults(std::string_view text) {
  TuningResults results;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    size_t tab = line.find('\t');
    if (tab == std::string_view::npos) continue;
    std::optional<TuningResult> result =
        ParseTuningResult(line.substr(tab + 1));
    if (result.has_value()) results[std::string(line.substr(0, tab))] = *result;
  }
  return results;
}

}  // namespace asyra
