// The tuning results of a process (tuning_results.h), each measured once and
// kept on disk.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "executor/tuning/disk_cache.h"
#include "executor/tuning/tuning_results.h"

namespace asyra {

// Thread-safe.
class TuningCache {
 public:
  // Takes the cache of results on disk, which outlives this; without it they
  // last as long as the process.
  explicit TuningCache(DiskCache* disk = nullptr) : disk_(disk) {}

  // Returns the result for `key` of this process, of one before it, or else of
  // `measure`. That of another process must be usable here (`serves`).
  // Measurements run one at a time: they would disturb each other.
  // Errors: those of `measure`.
  absl::StatusOr<TuningResult> Get(
      const std::string& key,
      const std::function<bool(const TuningResult& result)>& serves,
      const std::function<absl::StatusOr<TuningResult>()>& measure);
  // These replace what is cached, in the process and on disk.
  void Override(const TuningResults& results);
  // Returns whether `result` is still the cached one.
  bool Holds(const std::string& key, const TuningResult& result) const;

 private:
  struct Entry {
    TuningResult result;
    bool serves;  // it was measured here, or tried
  };
  void Keep(const std::string& key, const TuningResult& result);

  DiskCache* const disk_;
  mutable std::mutex mutex_;
  absl::btree_map<std::string, Entry> entries_;
};

}  // namespace asyra
