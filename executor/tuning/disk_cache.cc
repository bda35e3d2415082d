#include "executor/tuning/disk_cache.h"

#include <cstdlib>
#include <filesystem>

#include "ir/support/file.h"
#include "ir/support/hash.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Larger files are not ours.
constexpr uintmax_t kMostBytes = uintmax_t{64} << 20;

// The first line of a file; the key, a line end and the value follow.
std::string HeaderOf(std::string_view key, std::string_view value) {
  return fmt::format("asyra cache 1: {} + {} bytes, {:016x}\n", key.size(),
                     value.size(), Fnv1a(value, Fnv1a(key)));
}

// The value in the file of `key`.
std::optional<std::string> ValueIn(std::string_view file,
                                   std::string_view key) {
  size_t line = file.find('\n');
  if (line == std::string_view::npos) return std::nullopt;
  std::string_view header = file.substr(0, line + 1);
  std::string_view rest = file.substr(line + 1);
  if (rest.size() <= key.size() || rest.substr(0, key.size()) != key ||
      rest[key.size()] != '\n') {
    return std::nullopt;
  }
  std::string_view value = rest.substr(key.size() + 1);
  if (header != HeaderOf(key, value)) return std::nullopt;
  return std::string(value);
}

}  // namespace

std::string DiskCache::FolderOf(const Environment& environment) {
  if (const char* own = environment("ASYRA_CACHE_DIR")) return own;
  if (const char* set = environment("XDG_CACHE_HOME"); set && *set) {
    return std::string(set) + "/asyra";
  }
  const char* home = environment("HOME");
  return home && *home ? std::string(home) + "/.cache/asyra" : "";
}

DiskCache& DiskCache::OfProcess() {
  static auto* const cache = new DiskCache(
      FolderOf([](const char* name) { return std::getenv(name); }));
  return *cache;
}

std::string DiskCache::PathOf(std::string_view kind,
                              std::string_view key) const {
  return fmt::format("{}/{:016x}.{}", folder_, Fnv1a(key), kind);
}

std::optional<std::string> DiskCache::Find(std::string_view kind,
                                           std::string_view key) const {
  std::optional<std::string> value = FindPreloaded(kind, key);
  if (!value.has_value()) value = FindOnDisk(kind, key);
  if (value.has_value()) Note(kind, key, *value);
  return value;
}

std::optional<std::string> DiskCache::FindPreloaded(
    std::string_view kind, std::string_view key) const {
  std::lock_guard lock(mutex_);
  auto found = preloaded_.find({std::string(kind), std::string(key)});
  if (found == preloaded_.end()) return std::nullopt;
  return found->second;
}

void DiskCache::Preload(const std::vector<CacheEntry>& entries) {
  std::lock_guard lock(mutex_);
  for (const CacheEntry& entry : entries) {
    preloaded_[{entry.kind, entry.key}] = entry.value;
  }
}

void DiskCache::Record() {
  std::lock_guard lock(mutex_);
  records_ = true;
}

void DiskCache::Note(std::string_view kind, std::string_view key,
                     std::string_view value) const {
  std::lock_guard lock(mutex_);
  if (!records_) return;
  recorded_[{std::string(kind), std::string(key)}] = std::string(value);
}

std::vector<CacheEntry> DiskCache::recorded() const {
  std::lock_guard lock(mutex_);
  std::vector<CacheEntry> entries;
  for (const auto& [of, value] : recorded_) {
    entries.push_back({of.first, of.second, value});
  }
  return entries;
}

std::optional<std::string> DiskCache::FindOnDisk(std::string_view kind,
                                                 std::string_view key) const {
  if (folder_.empty()) return std::nullopt;
  std::string path = PathOf(kind, key);
  std::error_code error;
  uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size > kMostBytes) return std::nullopt;
  absl::StatusOr<std::string> file = ReadFile(path);
  if (!file.ok()) return std::nullopt;
  return ValueIn(*file, key);
}

void DiskCache::Keep(std::string_view kind, std::string_view key,
                     std::string_view value) {
  Note(kind, key, value);
  {
    std::lock_guard lock(mutex_);
    preloaded_.erase({std::string(kind), std::string(key)});
  }
  if (folder_.empty()) return;
  std::error_code ignored;  // writing reports the error
  std::filesystem::create_directories(folder_, ignored);
  absl::Status written = WriteFileAtomically(
      PathOf(kind, key), {HeaderOf(key, value), key, "\n", value});
  if (written.ok()) return;
  std::lock_guard lock(mutex_);
  if (problem_.ok()) problem_ = written;
}

absl::Status DiskCache::problem() const {
  std::lock_guard lock(mutex_);
  if (problem_.ok()) return problem_;
  return Annotate(problem_,
                  "the cache (ASYRA_CACHE_DIR; empty for none) cannot be "
                  "written");
}

}  // namespace asyra
