// A file mapped for reading: pages are read from disk when they are accessed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "ir/support/byte_source.h"

namespace asyra {

class MappedFile : public ByteSource {
 public:
  // Errors name the file and the system's reason. Shared, so that views into
  // it can keep it mapped.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(
      const std::string& path);
  ~MappedFile() override;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {data_, size_}; }
  // Reads with pread, not through the mapping: nothing is read ahead, and a
  // disk error is a Status, not a signal.
  absl::Status Read(int64_t offset, absl::Span<std::byte> to) const override;

 private:
  MappedFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status Map();

  std::string path_;
  int fd_;
  const char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace asyra
