// The scalars of the optimizers, and the values they may have.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace asyra {

// An option of attach_updates: at least 0, finite, and below a limit.
struct UpdateNumber {
  std::string_view name;
  std::string_view optimizer;  // that has it; empty: all
  double below = std::numeric_limits<double>::infinity();

  bool IsIn(double value) const { return value >= 0 && value < below; }
  // "at least 0 and below 1", "finite and at least 0".
  std::string range() const;
};

absl::Span<const UpdateNumber> UpdateNumbers();
// Returns one of them, by a name that exists.
const UpdateNumber& UpdateNumberOf(std::string_view name);

}  // namespace asyra
