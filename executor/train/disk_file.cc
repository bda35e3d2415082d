#include "executor/train/disk_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "ir/support/status.h"

namespace asyra {
namespace {

absl::Status SystemError(const std::string& path, std::string_view what,
                         int error = errno) {
  return Invalid("{}: {}: {}", path, what, std::strerror(error));
}

std::string FreeText(int fd) {
  struct statvfs disk;
  if (::fstatvfs(fd, &disk) != 0) return "an unknown number";
  return std::to_string(static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DiskFile>> DiskFile::Create(
    const std::string& path, int64_t bytes) {
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return SystemError(path, "cannot make the file");
  std::unique_ptr<DiskFile> file(new DiskFile(path, fd));
  ASYRA_RETURN_IF_ERROR(file->Reserve(bytes));
  return file;
}

absl::StatusOr<std::unique_ptr<DiskFile>> DiskFile::Open(
    const std::string& path) {
  int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return SystemError(path, "cannot open");
  return std::unique_ptr<DiskFile>(new DiskFile(path, fd));
}

DiskFile::~DiskFile() { ::close(fd_); }

absl::Status DiskFile::Reserve(int64_t bytes) {
  // fallocate fails on zero bytes.
  if (bytes == 0) return absl::OkStatus();
  if (::fallocate(fd_, 0, 0, bytes) == 0) return absl::OkStatus();
  int error = errno;
  if (error == EOPNOTSUPP || error == ENOSYS) {
    if (::ftruncate(fd_, bytes) == 0) return absl::OkStatus();
    error = errno;
  }
  return SystemError(
      path_,
      fmt::format("no space for {} bytes, {} are free", bytes, FreeText(fd_)),
      error);
}

absl::Status DiskFile::WriteAt(int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return SystemError(path_, fmt::format("cannot write {} bytes at {}",
                                            bytes.size(), offset));
    }
    offset += written;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status DiskFile::Sync() {
  if (::fsync(fd_) == 0) return absl::OkStatus();
  return SystemError(path_, "cannot flush to the disk");
}

absl::Status WriteSynced(const std::string& path, std::string_view bytes) {
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<DiskFile> file,
                         DiskFile::Create(path, 0));
  ASYRA_RETURN_IF_ERROR(file->WriteAt(0, bytes));
  return file->Sync();
}

absl::Status SyncFolder(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemError(path, "cannot open the folder");
  int failed = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  // Some file systems have nothing to flush for folders.
  if (failed == 0 || failed == EINVAL) return absl::OkStatus();
  return SystemError(path, "cannot flush to the disk", failed);
}

absl::Status ReplaceFolder(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  if (errno != ENOTEMPTY && errno != EEXIST) {
    return SystemError(from, "cannot rename it to " + to);
  }
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                  RENAME_EXCHANGE) == 0) {
    return absl::OkStatus();
  }
  if (errno != EINVAL && errno != ENOSYS) {
    return SystemError(from, "cannot exchange it with " + to);
  }
  ASYRA_RETURN_IF_ERROR(RemoveFolder(to));
  if (std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return SystemError(from, "cannot rename it to " + to);
}

absl::Status RemoveFolder(const std::string& path) {
  std::string removed = path;
  if (!removed.ends_with(kRemovedSuffix)) {
    removed += kRemovedSuffix;
    if (std::rename(path.c_str(), removed.c_str()) != 0) {
      if (errno == ENOENT) return absl::OkStatus();
      return SystemError(path, "cannot remove");
    }
  }
  std::error_code error;
  std::filesystem::remove_all(removed, error);
  if (!error) return absl::OkStatus();
  return Invalid("{}: cannot remove: {}", removed, error.message());
}

}  // namespace asyra
