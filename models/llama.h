// Llama 3: pre-norm decoder with rms_norm, grouped-query attention with
// rotary positions, and swiglu.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

struct LlamaConfig {
  int64_t layers = 32;
  int64_t hidden = 4096;
  int64_t intermediate = 14336;
  int64_t heads = 32;
  int64_t kv_heads = 8;
  int64_t vocabulary = 128256;
  double eps = 1e-5;
  DType dtype = DType::kBF16;
  int64_t batch = 2;
  int64_t seq = 8192;
};

// Inputs: ids i64[batch, seq], cos and sin [seq, hidden/heads/2], weights in
// the layout [in, out]. Output: logits [batch, seq, vocabulary].
absl::StatusOr<Program> BuildLlama(const LlamaConfig& config);

}  // namespace asyra
