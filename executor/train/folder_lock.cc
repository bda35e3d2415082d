#include "executor/train/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "ir/support/host_name.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;

// "process 123 on node7"; empty where the file does not say.
std::string OwnerIn(int fd) {
  char text[512];
  ssize_t count = ::pread(fd, text, sizeof(text), 0);
  return count > 0 ? std::string(text, static_cast<size_t>(count)) : "";
}

absl::Status IsTaken(const std::string& folder, int fd) {
  std::string owner = OwnerIn(fd);
  return absl::FailedPreconditionError(
      fmt::format("{}: another run writes there{}", folder,
                  owner.empty() ? "" : ": " + owner));
}

bool HasNoLocks(int error) {
  return error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS ||
         error == EINVAL;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Take(
    const std::string& folder, std::chrono::milliseconds longest) {
  constexpr std::chrono::milliseconds kPause(20);
  std::string path = folder + "/" + kLockFile;
  Clock::time_point end = Clock::now() + longest;
  while (true) {
    int fd =
        ::open(path.c_str(),
               O_RDWR | O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) {
      return Invalid("{}: cannot write: {}", path, std::strerror(errno));
    }
    std::unique_ptr<FolderLock> lock(new FolderLock(path, fd));
    int error = 0;
    do {
      error = ::flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    } while (error == EINTR);
    if (error == 0 && !lock->IsCurrent()) {  // it was removed meanwhile
      lock->path_.clear();
      continue;
    }
    if (HasNoLocks(error)) {
      lock->note_ = fmt::format(
          "{}: its file system has no locks ({}): nothing keeps another run "
          "from writing there",
          folder, std::strerror(error));
    }
    if (error == 0 || HasNoLocks(error)) {
      ASYRA_RETURN_IF_ERROR(lock->WriteOwner());
      return lock;
    }
    lock->path_.clear();  // it is another's
    if (error != EWOULDBLOCK) {
      return Invalid("{}: cannot lock: {}", path, std::strerror(error));
    }
    if (Clock::now() >= end) return IsTaken(folder, fd);
    std::this_thread::sleep_for(kPause);
  }
}

FolderLock::~FolderLock() {
  // Before the lock ends: who takes it then makes a file of its own.
  if (!path_.empty()) ::unlink(path_.c_str());
  ::close(fd_);
}

bool FolderLock::IsCurrent() const {
  struct stat mine = {}, there = {};
  return ::fstat(fd_, &mine) == 0 && ::stat(path_.c_str(), &there) == 0 &&
         mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

absl::Status FolderLock::WriteOwner() const {
  std::string host = HostName();
  std::string owner =
      fmt::format("process {} on {}", ::getpid(), host.empty() ? "?" : host);
  auto size = static_cast<ssize_t>(owner.size());
  if (::ftruncate(fd_, 0) == 0 &&
      ::pwrite(fd_, owner.data(), owner.size(), 0) == size) {
    return absl::OkStatus();
  }
  return Invalid("{}: cannot write: {}", path_, std::strerror(errno));
}

}  // namespace asyra
