#include "ir/support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ir/support/status.h"

namespace asyra {

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(
    const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NotFound("{}: {}", path, std::strerror(errno));
  struct stat info;
  absl::Status status;
  void* data = nullptr;
  size_t size = 0;
  if (::fstat(fd, &info) != 0) {
    status = Invalid("{}: {}", path, std::strerror(errno));
  } else if (!S_ISREG(info.st_mode)) {
    status = Invalid("{}: not a regular file", path);
  } else if (info.st_size > 0) {  // mmap refuses empty files
    size = static_cast<size_t>(info.st_size);
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      status = Invalid("{}: cannot map: {}", path, std::strerror(errno));
    }
  }
  ::close(fd);
  if (!status.ok()) return status;
  return std::shared_ptr<const MappedFile>(
      new MappedFile(static_cast<const char*>(data), size));
}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(const_cast<char*>(data_), size_);
}

}  // namespace asyra
