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

#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "executor/comm/launcher.h"

namespace asyra {

// Thread-safe.
class DiskCache {
 public:
  // Empty: nothing is found and nothing is kept. The folder is made when
  // something is kept.
  explicit DiskCache(std::string folder) : folder_(std::move(folder)) {}

  // $ASYRA_CACHE_DIR, and none where that is set and empty; else
  // $XDG_CACHE_HOME/asyra; else $HOME/.cache/asyra; none without a home.
  static std::string FolderOf(const Environment& environment);
  // The cache of the process, from its environment at the first call.
  static DiskCache& OfProcess();

  const std::string& folder() const { return folder_; }

  // `kind` is a word, the end of the file's name.
  std::optional<std::string> Find(std::string_view kind,
                                  std::string_view key) const;
  void Keep(std::string_view kind, std::string_view key,
            std::string_view value);

  // OK, or the first failure to write an entry, for a warning: results are not
  // affected.
  absl::Status problem() const;

 private:
  std::string PathOf(std::string_view kind, std::string_view key) const;

  const std::string folder_;
  mutable std::mutex mutex_;
  absl::Status problem_;
};

}  // namespace asyra
