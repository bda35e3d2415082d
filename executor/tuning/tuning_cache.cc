#include "executor/tuning/tuning_cache.h"

#include <optional>

namespace asyra {
namespace {

constexpr char kKind[] = "tuning";  // of files

}  // namespace

absl::StatusOr<TuningResult> TuningCache::Get(
    const std::string& key,
    const std::function<bool(const TuningResult& result)>& serves,
    const std::function<absl::StatusOr<TuningResult>()>& measure) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(key);
  if (found == entries_.end() && disk_ != nullptr) {
    std::optional<std::string> text = disk_->Find(kKind, key);
    std::optional<TuningResult> kept;
    if (text.has_value()) kept = ParseTuningResult(*text);
    if (kept.has_value())
      found = entries_.emplace(key, Entry{*kept, false}).first;
  }
  if (found != entries_.end()) {
    Entry& entry = found->second;
    entry.serves = entry.serves || serves(entry.result);
    if (entry.serves) return entry.result;
  }
  absl::StatusOr<TuningResult> result = measure();
  if (!result.ok()) return result;
  entries_[key] = {*result, true};
  Keep(key, *result);
  return result;
}

void TuningCache::Override(const TuningResults& results) {
  std::lock_guard lock(mutex_);
  for (const auto& [key, result] : results) {
    auto found = entries_.find(key);
    if (found != entries_.end() && found->second.result == result) continue;
    entries_[key] = {result, false};
    Keep(key, result);
  }
}

bool TuningCache::Holds(const std::string& key,
                        const TuningResult& result) const {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(key);
  return found != entries_.end() && found->second.result == result;
}

void TuningCache::Keep(const std::string& key, const TuningResult& result) {
  // Unmeasured results are provisional.
  if (disk_ != nullptr && result.us > 0) {
    disk_->Keep(kKind, key, ToText(result));
  }
}

}  // namespace asyra
