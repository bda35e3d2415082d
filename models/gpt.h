// GPT-2 and GPT-3: pre-norm decoder with layer_norm, learned positions,
// biases, and gelu.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "models/parts.h"

namespace asyra {

struct GptConfig {
  DecoderSizes sizes{.layers = 12,
                     .hidden = 768,
                     .heads = 12,
                     .vocabulary = 50304,  // 50257, padded to 128
                     .batch = 2,
                     .seq = 2048,
                     .dtype = DType::kBF16};
  int64_t positions = 2048;
  double eps = 1e-5;
};

// Inputs: ids i64[batch, seq], weights in the layout [in, out] of GPT-2's
// Conv1D; the table of the embedding is that of the logits too. Output: logits
// [batch, seq, vocabulary].
// Errors: more tokens than positions, sizes that do not fit.
absl::StatusOr<Program> BuildGpt(const GptConfig& config);

}  // namespace asyra
