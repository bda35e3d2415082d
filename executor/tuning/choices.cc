#include "executor/tuning/choices.h"

#include <algorithm>
#include <charconv>

#include "fmt/format.h"

namespace asyra {

std::string ToText(const Choice& choice) {
  return fmt::format("{}\t{}", choice.us, choice.value);
}

std::optional<Choice> ParseChoice(std::string_view text) {
  size_t tab = text.find('\t');
  if (tab == std::string_view::npos) return std::nullopt;
  Choice choice{std::string(text.substr(tab + 1))};
  const char* end = text.data() + tab;
  auto [at, error] = std::from_chars(text.data(), end, choice.us);
  if (error != std::errc() || at != end ||
      choice.value.find_first_of("\t\n") != std::string::npos) {
    return std::nullopt;
  }
  return choice;
}

std::string ToText(const Choices& choices) {
  std::string text;
  for (const auto& [key, choice] : choices) {
    text += fmt::format("{}\t{}\n", key, ToText(choice));
  }
  return text;
}

Choices ParseChoices(std::string_view text) {
  Choices choices;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    size_t tab = line.find('\t');
    if (tab == std::string_view::npos) continue;
    std::optional<Choice> choice = ParseChoice(line.substr(tab + 1));
    if (choice.has_value()) choices[std::string(line.substr(0, tab))] = *choice;
  }
  return choices;
}

}  // namespace asyra
