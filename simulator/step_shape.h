// The shape of one step of a model: batch and tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace asyra {

struct StepShape {
  int64_t batch = 0;  // 0: not known
  // Of one sequence; several where inputs have tokens of their own, as those
  // of an encoder and a decoder, most first. Empty: the model has none.
  std::vector<int64_t> tokens;
  std::string dtype;  // of most weights

  bool known() const { return batch > 0; }
  // Of the longest sequences; samples where there are no tokens.
  int64_t TokensPerStep() const;

  friend bool operator==(const StepShape&, const StepShape&) = default;
};

// "batch 4, 64 tokens, f32"; empty if unknown.
std::string ToText(const StepShape& shape);
// "step: batch 4, 64 tokens, f32; 1.4 M tokens a second" and a line break;
// empty if unknown.
std::string StepText(const StepShape& shape, double step_us);
nlohmann::json ToJson(const StepShape& shape);

// Tokens, or samples, in a second; 0 if unknown.
double TokensPerSecond(const StepShape& shape, double step_us);

}  // namespace asyra
