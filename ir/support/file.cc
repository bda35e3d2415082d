#include "ir/support/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "ir/support/mapped_file.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

absl::Status SystemError(const std::string& path, std::string_view what) {
  // The system's word of a pipe, "No such device or address", misleads.
  return Invalid("{}: {}: {}", path, what,
                 errno == ENXIO ? "nobody reads it" : std::strerror(errno));
}

// Writes to a descriptor and closes it; errors name `name`. Below 0: it could
// not be opened.
absl::Status WriteAndClose(int fd, absl::Span<const std::string_view> pieces,
                           const std::string& name) {
  if (fd < 0) return SystemError(name, "cannot write");
  absl::Status status;
  for (std::string_view piece : pieces) {
    if (!status.ok() || WriteAll(fd, piece) == 0) continue;
    status = SystemError(name, "cannot write");
  }
  if (::close(fd) != 0 && status.ok()) {
    status = SystemError(name, "cannot write");
  }
  return status;
}

// The descriptor that a path of this process means: opened by that path, a file
// behind it would be written from its beginning. -1: none.
int DescriptorOf(const std::string& path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  constexpr std::string_view kFolders[] = {"/dev/fd/", "/proc/self/fd/"};
  for (std::string_view folder : kFolders) {
    int fd = -1;
    if (path.starts_with(folder) &&
        absl::SimpleAtoi(path.substr(folder.size()), &fd)) {
      return fd;
    }
  }
  return -1;
}

// Returns the existing file to which symbolic links lead; else `path`.
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
  // Not through the mapping: of a file that is cut meanwhile that is a signal.
  std::string bytes(file->bytes().size(), '\0');
  ASYRA_RETURN_IF_ERROR(file->Read(
      0, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}));
  return bytes;
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

absl::Status CheckPath(const std::string& path) {
  if (path.find('\0') == std::string::npos) return absl::OkStatus();
  return Invalid("'{}': a path has no NUL byte",
                 absl::StrReplaceAll(path, {{std::string(1, '\0'), "\\0"}}));
}

absl::Status CheckNoStream(const std::string& path) {
  struct stat found = {};
  bool is_stream = ::stat(path.c_str(), &found) == 0 &&
                   !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode);
  if (!is_stream) return absl::OkStatus();
  return Invalid("{}: cannot write: it is a device or a pipe, no file", path);
}

std::string RandomName() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

// write(2) takes at most 2 GB at a time and may take less.
int WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const std::string_view> pieces) {
  ASYRA_RETURN_IF_ERROR(CheckPath(path));
  ASYRA_RETURN_IF_ERROR(CheckNoStream(path));
  bool is_there = ::access(path.c_str(), F_OK) == 0;
  std::string target = is_there ? TargetOf(path) : path;
  std::string temporary = target + ".tmp" + RandomName();
  int fd =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  absl::Status status = WriteAndClose(fd, pieces, path);
  if (status.ok() && std::rename(temporary.c_str(), target.c_str()) != 0) {
    status = SystemError(path, "cannot write");
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

absl::Status WriteTextFile(const std::string& path, std::string_view text) {
  ASYRA_RETURN_IF_ERROR(CheckPath(path));
  if (int fd = DescriptorOf(path); fd >= 0) {
    if (fd == STDOUT_FILENO) std::fflush(stdout);
    return WriteAndClose(::fcntl(fd, F_DUPFD_CLOEXEC, 3), {text}, path);
  }
  struct stat found = {};
  if (::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    return WriteAndClose(OpenWithoutWaiting(path, 0), {text}, path);
  }
  return WriteFileAtomically(path, {text});
}

int OpenWithoutWaiting(const std::string& path, int flags) {
  int fd =
      ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | flags, 0666);
  if (fd < 0) return fd;
  // Only opening does not wait: a reader may be slow.
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return fd;
}

}  // namespace asyra
