// A source of bytes that are read in parts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace asyra {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills `to` with the bytes from `offset` on. May be called by several
  // threads. Errors name the source: bytes beyond its end, or the system's
  // reason.
  virtual absl::Status Read(int64_t offset, absl::Span<std::byte> to) const = 0;
};

}  // namespace asyra
