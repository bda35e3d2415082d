// The shape of one step of a model: batch, and tokens or images.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace asyra {

struct StepShape {
  int64_t batch = 0;  // 0: not known
  // Computed by the step, of one sequence: those of a cache do not count.
  // Several where inputs have tokens of their own, as those of an encoder and a
  // decoder, most first. Empty: the model has none.
  std::vector<int64_t> tokens;
  std::string dtype;  // of most weights
  // Height and width of the images of a model that sees images alone, with the
  // frames of a video before them; else empty.
  std::vector<int64_t> image = {};

  bool known() const { return batch > 0; }
  // Returns the tokens of the longest sequences; images or samples if there are
  // no tokens.
  int64_t TokensPerStep() const;
  // Returns what TokensPerStep counts: "tokens", "images" or "samples".
  std::string_view unit() const;
  // Returns what one of them is: "token", "image" or "sample".
  std::string_view one() const;

  friend bool operator==(const StepShape&, const StepShape&) = default;
};

// "batch 4, 64 tokens, f32", "batch 4, images of 32 x 32, f32"; empty if
// unknown.
std::string ToText(const StepShape& shape);
// "step: batch 4, 64 tokens, f32; 1.4 M tokens a second" and a line break;
// empty if unknown.
std::string StepText(const StepShape& shape, double step_us);
// batch, tokens, dtype, unit, and image where there is one.
nlohmann::json ToJson(const StepShape& shape);

// Tokens, images or samples in a second; 0 if unknown.
double TokensPerSecond(const StepShape& shape, double step_us);

}  // namespace asyra
