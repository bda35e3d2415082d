#include "simulator/report/step_shape.h"

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "ir/support/units.h"
#include "nlohmann/json.hpp"

namespace asyra {

int64_t StepShape::TokensPerStep() const {
  return batch * (tokens.empty() ? 1 : tokens[0]);
}

std::string_view StepShape::unit() const {
  if (!tokens.empty()) return "tokens";
  return image.empty() ? "samples" : "images";
}

std::string_view StepShape::one() const {
  return unit().substr(0, unit().size() - 1);
}

std::string ToText(const StepShape& shape) {
  if (!shape.known()) return "";
  std::string text = fmt::format("batch {}", shape.batch);
  if (!shape.tokens.empty()) {
    bool one = shape.tokens == std::vector<int64_t>{1};
    text += fmt::format(", {} token{}", absl::StrJoin(shape.tokens, " and "),
                        one ? "" : "s");
  }
  if (!shape.image.empty()) {
    text += fmt::format(", images of {}", absl::StrJoin(shape.image, " x "));
  }
  return shape.dtype.empty() ? text : text + ", " + shape.dtype;
}

std::string StepText(const StepShape& shape, double step_us) {
  if (!shape.known()) return "";
  return fmt::format("step: {}; {}{} a second\n", ToText(shape),
                     CountText(TokensPerSecond(shape, step_us)), shape.unit());
}

nlohmann::json ToJson(const StepShape& shape) {
  nlohmann::json json = {{"batch", shape.batch},
                         {"tokens", shape.tokens},
                         {"dtype", shape.dtype},
                         {"unit", shape.unit()}};
  if (!shape.image.empty()) json["image"] = shape.image;
  return json;
}

double TokensPerSecond(const StepShape& shape, double step_us) {
  return step_us > 0
             ? 1e6 * static_cast<double>(shape.TokensPerStep()) / step_us
             : 0;
}

}  // namespace asyra
