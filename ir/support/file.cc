#include "ir/support/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "ir/support/mapped_file.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

absl::Status SystemError(const std::string& path, std::string_view what) {
  return Invalid("{}: {}: {}", path, what, std::strerror(errno));
}

// write(2) takes at most 2 GB at a time and may take less.
absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError(path, "cannot write");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

// Another one for each thread, process and host that writes in the folder.
std::string TemporarySuffix() {
  std::random_device random;
  return fmt::format(".tmp{:08x}{:08x}", random(), random());
}

// Opens `path` with such flags; errors name `name`.
absl::Status Write(const std::string& path, int flags,
                   absl::Span<const std::string_view> pieces,
                   const std::string& name) {
  int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd < 0) return SystemError(name, "cannot write");
  absl::Status status;
  for (std::string_view piece : pieces) {
    if (status.ok()) status = WriteAll(fd, piece, name);
  }
  if (::close(fd) != 0 && status.ok()) {
    status = SystemError(name, "cannot write");
  }
  return status;
}

// Where symbolic links lead to a file that is there.
std::string TargetOf(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  std::string target = real;
  std::free(real);
  return target;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file,
                         MappedFile::Open(path));
  return std::string(file->bytes());
}

std::string ReadSystemFile(const std::string& path) {
  std::string text;
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char bytes[4096];
  ssize_t count = 0;
  while ((count = ::read(fd, bytes, sizeof(bytes))) > 0) {
    text.append(bytes, static_cast<size_t>(count));
  }
  ::close(fd);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const std::string_view> pieces) {
  struct stat found = {};
  bool is_there = ::stat(path.c_str(), &found) == 0;
  if (is_there && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) {
    return Write(path, O_WRONLY, pieces, path);
  }
  std::string target = is_there ? TargetOf(path) : path;
  std::string temporary = target + TemporarySuffix();
  absl::Status status =
      Write(temporary, O_WRONLY | O_CREAT | O_EXCL, pieces, path);
  if (status.ok() && std::rename(temporary.c_str(), target.c_str()) != 0) {
    status = SystemError(path, "cannot write");
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

}  // namespace asyra
