#include "simulator/step_shape.h"

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "ir/support/units.h"
#include "nlohmann/json.hpp"

namespace asyra {

int64_t StepShape::TokensPerStep() const {
  return batch * (tokens.empty() ? 1 : tokens[0]);
}

std::string ToText(const StepShape& shape) {
  if (!shape.known()) return "";
  std::string text = fmt::format("batch {}", shape.batch);
  if (!shape.tokens.empty()) {
    text += fmt::format(", {} tokens", absl::StrJoin(shape.tokens, " and "));
  }
  return shape.dtype.empty() ? text : text + ", " + shape.dtype;
}

std::string StepText(const StepShape& shape, double step_us) {
  if (!shape.known()) return "";
  return fmt::format("step: {}; {}{} a second\n", ToText(shape),
                     CountText(TokensPerSecond(shape, step_us)),
                     shape.tokens.empty() ? "samples" : "tokens");
}

nlohmann::json ToJson(const StepShape& shape) {
  return {
      {"batch", shape.batch}, {"tokens", shape.tokens}, {"dtype", shape.dtype}};
}

double TokensPerSecond(const StepShape& shape, double step_us) {
  return step_us > 0
             ? 1e6 * static_cast<double>(shape.TokensPerStep()) / step_us
             : 0;
}

}  // namespace asyra
