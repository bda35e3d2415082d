// Llama 3 and Qwen3 MoE: pre-norm decoders with rms_norm, grouped-query
// attention with rotary positions, and gated feed-forward layers, dense or of
// experts.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "models/parts.h"

namespace asyra {

// Experts in place of the dense feed-forward layer.
struct ExpertSizes {
  int64_t experts = 0;  // 0: dense
  int64_t chosen = 0;   // of them, by each token
  // Slots of an expert in percent of an even share of the tokens; tokens
  // without a slot are dropped. 0: slots for every token.
  int64_t capacity_percent = 0;
};

struct LlamaConfig {
  DecoderSizes sizes{.layers = 32,
                     .hidden = 4096,
                     .heads = 32,
                     .vocabulary = 128256,
                     .batch = 2,
                     .seq = 8192,
                     .dtype = DType::kBF16};
  int64_t kv_heads = 8;
  int64_t head_size = 128;
  int64_t intermediate = 14336;  // of each expert, where there are some
  ExpertSizes experts = {};
  bool norm_heads = false;  // rms_norm of each head of q and k, as Qwen3
  double eps = 1e-5;
  double rotary_base = 500000;  // of the frequencies: base^(-2i/head_size)
};

LlamaConfig Llama3Config8B();
LlamaConfig Llama3Config70B();
LlamaConfig Qwen3Config30B();  // A3B: 3 G of its parameters active

// Inputs: ids i64[batch, seq], cos and sin [seq, head_size/2], weights in the
// layout [out, in], those of experts [expert, out, in]. Output: logits [batch,
// seq, vocabulary].
// Errors: sizes that do not fit.
absl::StatusOr<Program> BuildLlama(const LlamaConfig& config);

}  // namespace asyra
