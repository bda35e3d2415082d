// Bytes that are read in parts, from wherever they are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace asyra {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills `to` with what begins at byte `offset`. May be called by several
  // threads. Errors name the source: bytes it has not, or the system's reason.
  virtual absl::Status Read(int64_t offset, absl::Span<std::byte> to) const = 0;
};

}  // namespace asyra
