#include "executor/comm/choices.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
#include "ir/support/hash.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Strings as "LENGTH:TEXT", one behind the other: names and values may have any
// character.
std::string Pack(const std::vector<NamedChoice>& choices) {
  std::string text;
  for (const NamedChoice& choice : choices) {
    for (const std::string* part : {&choice.name, &choice.value}) {
      text += fmt::format("{}:{}", part->size(), *part);
    }
  }
  return text;
}

std::string Unpack(std::string_view* text) {
  size_t size = 0;
  const char* end = text->data() + text->size();
  const char* colon = std::from_chars(text->data(), end, size).ptr;
  size_t begin = colon - text->data() + 1;
  std::string part(text->substr(std::min(begin, text->size()), size));
  text->remove_prefix(std::min(text->size(), begin + size));
  return part;
}

std::vector<NamedChoice> ReadChoices(std::string_view text) {
  std::vector<NamedChoice> choices;
  while (!text.empty()) {
    std::string name = Unpack(&text);
    choices.push_back({std::move(name), Unpack(&text)});
  }
  return choices;
}

std::string ValueOf(const std::vector<NamedChoice>& choices,
                    const std::string& name) {
  auto found = absl::c_find_if(
      choices, [&](const NamedChoice& one) { return one.name == name; });
  return found == choices.end() || found->value.empty() ? "not given"
                                                        : found->value;
}

absl::Status Compare(const std::vector<NamedChoice>& first,
                     const std::vector<NamedChoice>& other, size_t rank) {
  std::vector<NamedChoice> all = first;
  absl::c_copy(other, std::back_inserter(all));
  for (const NamedChoice& choice : all) {
    std::string a = ValueOf(first, choice.name);
    std::string b = ValueOf(other, choice.name);
    if (a == b) continue;
    return Invalid("{} is {} on rank 0 and {} on rank {}", choice.name, a, b,
                   rank);
  }
  return Invalid("ranks 0 and {} do not agree on what they are told to do",
                 rank);
}

}  // namespace

absl::Status CheckSameChoices(Communicator& world,
                              const std::vector<NamedChoice>& mine) {
  std::string text = Pack(mine);
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> hashes,
                         world.Exchange(fmt::format("{:016x}", Fnv1a(text))));
  auto other = absl::c_find_if(
      hashes, [&](const std::string& hash) { return hash != hashes[0]; });
  if (other == hashes.end()) return absl::OkStatus();
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> texts, world.Exchange(text));
  size_t rank = other - hashes.begin();
  return Compare(ReadChoices(texts[0]), ReadChoices(texts[rank]), rank);
}

}  // namespace asyra
