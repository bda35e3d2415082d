#include "executor/tuning/choice_store.h"

#include <optional>

namespace asyra {
namespace {

constexpr char kKind[] = "choice";  // of files

}  // namespace

absl::StatusOr<Choice> ChoiceStore::Get(
    const std::string& key,
    const std::function<bool(const Choice& choice)>& serves,
    const std::function<absl::StatusOr<Choice>()>& measure) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(key);
  if (found == entries_.end() && disk_ != nullptr) {
    std::optional<std::string> text = disk_->Find(kKind, key);
    std::optional<Choice> kept;
    if (text.has_value()) kept = ParseChoice(*text);
    if (kept.has_value())
      found = entries_.emplace(key, Entry{*kept, false}).first;
  }
  if (found != entries_.end()) {
    Entry& entry = found->second;
    entry.serves = entry.serves || serves(entry.choice);
    if (entry.serves) return entry.choice;
  }
  absl::StatusOr<Choice> choice = measure();
  if (!choice.ok()) return choice;
  entries_[key] = {*choice, true};
  Keep(key, *choice);
  return choice;
}

void ChoiceStore::Adopt(const Choices& choices) {
  std::lock_guard lock(mutex_);
  for (const auto& [key, choice] : choices) {
    auto found = entries_.find(key);
    if (found != entries_.end() && found->second.choice == choice) continue;
    entries_[key] = {choice, false};
    Keep(key, choice);
  }
}

bool ChoiceStore::Holds(const std::string& key, const Choice& choice) const {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(key);
  return found != entries_.end() && found->second.choice == choice;
}

void ChoiceStore::Keep(const std::string& key, const Choice& choice) {
  // What was not measured is a makeshift.
  if (disk_ != nullptr && choice.us > 0) {
    disk_->Keep(kKind, key, ToText(choice));
  }
}

}  // namespace asyra
