#include "tools/run/number_check.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "fmt/format.h"

namespace asyra {

NumberCheck NumberThat(std::function<bool(double)> fits, std::string range) {
  return [fits = std::move(fits),
          range = std::move(range)](const std::string& text) {
    double value = 0;
    bool good = absl::SimpleAtod(text, &value) && fits(value);
    return good ? std::string()
                : fmt::format("it is {}, it must be {}", text, range);
  };
}

NumberCheck FiniteFrom(double low) {
  return NumberThat(
      [low](double value) { return value >= low && std::isfinite(value); },
      fmt::format("finite and at least {}", low));
}

NumberCheck FiniteAbove(double low) {
  return NumberThat(
      [low](double value) { return value > low && std::isfinite(value); },
      fmt::format("finite and above {}", low));
}

NumberCheck Within(double low, double high) {
  return NumberThat(
      [low, high](double value) { return value >= low && value <= high; },
      fmt::format("from {} to {}", low, high));
}

}  // namespace asyra
