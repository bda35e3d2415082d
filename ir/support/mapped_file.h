// A file mapped for reading: pages come from disk when they are looked at.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace asyra {

class MappedFile {
 public:
  // Errors name the file and the system's reason. Shared, so that views into
  // it can keep it mapped.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(
      const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {data_, size_}; }

 private:
  MappedFile(const char* data, size_t size) : data_(data), size_(size) {}

  const char* data_;
  size_t size_;
};

}  // namespace asyra
