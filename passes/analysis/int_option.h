// Integer options of passes.
#pragma once

#include <limits>
#include <string_view>

#include "absl/status/statusor.h"
#include "ir/support/status.h"
#include "passes/pass.h"

namespace asyra {

// Returns an option that is an int. Error: it does not fit.
inline absl::StatusOr<int> IntOption(const PassOptions& options,
                                     std::string_view name) {
  int64_t value = options.Int(name);
  using Limits = std::numeric_limits<int>;
  if (value >= Limits::min() && value <= Limits::max()) {
    return static_cast<int>(value);
  }
  return Invalid("{} is {}, it must be from {} to {}", name, value,
                 Limits::min(), Limits::max());
}

}  // namespace asyra
