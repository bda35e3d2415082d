// Files that are written in parts, by several ranks, and that must be on the
// disk before somebody is told so. All errors name the path and the system's
// reason.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace asyra {

class DiskFile {
 public:
  // Makes a new file of `bytes`, for which the disk has space from then on
  // where the file system can reserve it. The error names the bytes and those
  // that are free.
  static absl::StatusOr<std::unique_ptr<DiskFile>> Create(
      const std::string& path, int64_t bytes);
  // Opens one that exists, for writing.
  static absl::StatusOr<std::unique_ptr<DiskFile>> Open(
      const std::string& path);
  ~DiskFile();
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  absl::Status WriteAt(int64_t offset, std::string_view bytes);
  // Returns when all that was written is on the disk.
  absl::Status Sync();

 private:
  DiskFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status Reserve(int64_t bytes);

  std::string path_;
  int fd_;
};

// Writes a new file of these bytes, on the disk.
absl::Status WriteSynced(const std::string& path, std::string_view bytes);

// The names in a folder are on the disk.
absl::Status SyncFolder(const std::string& path);

// Gives `from` the name `to`. A folder of that name takes the name `from`, in
// one step where the file system can, so that `to` always exists.
absl::Status ReplaceFolder(const std::string& from, const std::string& to);

// Takes a folder with all that is in it away. It takes a name with this suffix
// first, so that nobody finds half of it; a folder of such a name is one that
// was not removed to the end. None there: nothing to do.
inline constexpr char kRemovedSuffix[] = ".removed";
absl::Status RemoveFolder(const std::string& path);

}  // namespace asyra
