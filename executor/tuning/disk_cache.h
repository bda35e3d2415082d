// Values that are expensive to compute and depend only on a text, their key,
// kept in files for later processes: tuning results, compiled kernels.
//
// There is a file for each key. It is written under another name and renamed,
// so that threads, processes and hosts share a folder without a lock, which a
// killed process would leave behind and network file systems may lack; of two
// that write one key the last one wins. A file that is cut short, changed, of
// another version, or of another key with the same hash is ignored, and is
// replaced when its key is kept again. Any of them may be deleted at any time.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ir/support/environment.h"

namespace asyra {

// A value in it.
struct CacheEntry {
  std::string kind, key, value;
};

// Thread-safe.
class DiskCache {
 public:
  // Empty: nothing is found and nothing is kept. The folder is made when
  // something is kept.
  explicit DiskCache(std::string folder) : folder_(std::move(folder)) {}

  // $ASYRA_CACHE_DIR, and none where that is set and empty; else
  // $XDG_CACHE_HOME/asyra; else $HOME/.cache/asyra; none without a home.
  static std::string FolderOf(const Environment& environment);
  // Returns the cache of the process, from its environment at the first call.
  static DiskCache& OfProcess();

  const std::string& folder() const { return folder_; }

  // `kind` is a word, the end of the file's name.
  std::optional<std::string> Find(std::string_view kind,
                                  std::string_view key) const;
  void Keep(std::string_view kind, std::string_view key,
            std::string_view value);

  // Finds these before those of the folder, also where there is none.
  void Preload(const std::vector<CacheEntry>& entries);
  // Remembers what is found and kept from here on.
  void Record();
  // Since then, each key once, in the order of kinds and keys.
  std::vector<CacheEntry> recorded() const;

  // OK, or the first failure to write an entry, for a warning: results are not
  // affected.
  absl::Status problem() const;

 private:
  std::string PathOf(std::string_view kind, std::string_view key) const;
  std::optional<std::string> FindPreloaded(std::string_view kind,
                                           std::string_view key) const;
  std::optional<std::string> FindOnDisk(std::string_view kind,
                                        std::string_view key) const;
  void Note(std::string_view kind, std::string_view key,
            std::string_view value) const;

  const std::string folder_;
  mutable std::mutex mutex_;
  absl::Status problem_;
  // Cached values by kind and key.
  using Values = std::map<std::pair<std::string, std::string>, std::string>;
  Values preloaded_;
  bool records_ = false;
  mutable Values recorded_;  // Find records too
};

}  // namespace asyra
