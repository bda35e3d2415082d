// A folder that one run writes: the lock of a file in it, which the kernel
// releases when the process ends, however it does.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace asyra {

// The file: it has the host and the process, for the message of others. It is
// removed with the lock; one that is left is nobody's, and is taken.
inline constexpr char kLockFile[] = ".asyra-lock";

class FolderLock {
 public:
  // Waits for at most `longest` for others, of this process too. Errors:
  // another run writes there, with its host and process; the file cannot be
  // written. A file system that has no locks is no error: note() says so.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(
      const std::string& folder,
      std::chrono::milliseconds longest = std::chrono::milliseconds(0));
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Returns the reason why nothing keeps others out; else empty.
  const std::string& note() const { return note_; }

 private:
  FolderLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  // True while the file is still the one of that name.
  bool IsCurrent() const;
  absl::Status WriteOwner() const;

  std::string path_;
  int fd_;
  std::string note_;
};

}  // namespace asyra
