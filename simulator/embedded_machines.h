// The files of simulator/machines, embedded at build time.
#pragma once

#include <string_view>

#include "absl/types/span.h"

namespace asyra {

struct EmbeddedMachine {
  std::string_view name;  // "h200x8"
  std::string_view text;  // the file
};

// In the order of their names.
absl::Span<const EmbeddedMachine> EmbeddedMachines();

}  // namespace asyra
