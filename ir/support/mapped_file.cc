#include "ir/support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ir/support/file.h"
#include "ir/support/status.h"

namespace asyra {

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(
    const std::string& path) {
  ASYRA_RETURN_IF_ERROR(CheckPath(path));
  // A pipe is refused below, not waited for.
  int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return NotFound("{}: {}", path, std::strerror(errno));
  std::shared_ptr<MappedFile> file(new MappedFile(path, fd));
  ASYRA_RETURN_IF_ERROR(Annotate(file->Map(), path));
  return file;
}

absl::Status MappedFile::Map() {
  struct stat info;
  if (::fstat(fd_, &info) != 0) return Invalid("{}", std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return Invalid("not a regular file");
  if (info.st_size == 0) return absl::OkStatus();  // mmap refuses empty files
  auto size = static_cast<size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd_, 0);
  if (data == MAP_FAILED) {
    return Invalid("cannot map: {}", std::strerror(errno));
  }
  data_ = static_cast<const char*>(data);
  size_ = size;
  return absl::OkStatus();
}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(const_cast<char*>(data_), size_);
  ::close(fd_);
}

absl::Status MappedFile::Read(int64_t offset, absl::Span<std::byte> to) const {
  while (!to.empty()) {
    ssize_t count = ::pread(fd_, to.data(), to.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return Invalid("{}: cannot read byte {}: {}", path_, offset,
                     count < 0 ? std::strerror(errno) : "the file ends");
    }
    offset += count;
    to.remove_prefix(count);
  }
  return absl::OkStatus();
}

}  // namespace asyra
