// The files of simulator/machines, embedded at build time.
#pragma once

#include <string_view>

#include "absl/types/span.h"

namespace asyra {

struct EmbeddedFile {
  std::string_view name;  // "h200x8.machine", "h200x8.table"
  std::string_view text;
};

// In the order of their names.
absl::Span<const EmbeddedFile> EmbeddedFiles();

}  // namespace asyra
