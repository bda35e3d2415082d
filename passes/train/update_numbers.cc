#include "passes/train/update_numbers.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

constexpr UpdateNumber kNumbers[] = {
    {"beta1", "adamw", 1},  {"beta2", "adamw", 1}, {"eps", "adamw"},
    {"momentum", "sgd", 1}, {"decay", ""},         {"clip", ""},
};

}  // namespace

std::string UpdateNumber::range() const {
  return std::isfinite(below) ? fmt::format("at least 0 and below {}", below)
                              : "finite and at least 0";
}

absl::Span<const UpdateNumber> UpdateNumbers() { return kNumbers; }

const UpdateNumber& UpdateNumberOf(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kNumbers), std::end(kNumbers),
                   [&](const UpdateNumber& one) { return one.name == name; });
  ASYRA_CHECK(found != std::end(kNumbers));
  return *found;
}

}  // namespace asyra
