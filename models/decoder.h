// Decoders of language models, from a description: what llama, mixtral, gemma,
// phi-3, gpt-neox, gpt2 and their relatives differ in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "models/parts.h"

namespace asyra {

enum class NormKind {
  kRms,
  kRmsOfOneMore,  // rms_norm whose scale is 1 + the weight
  kLayer,         // layer_norm with a bias
};

// The place of the weights of queries, keys and values.
enum class QkvWeights {
  kApart,   // three matrices
  kJoined,  // one: all queries, then all keys, then all values
  kByHead,  // one: of each head its query, key and value; as many of each
};

// Experts in place of the dense feed-forward layer.
struct ExpertSizes {
  int64_t experts = 0;  // 0: dense
  int64_t chosen = 0;   // of them, by each token
  // Slots of an expert in percent of an even share of the tokens; tokens
  // without a slot are dropped. 0: slots for every token.
  int64_t capacity_percent = 0;
  int64_t intermediate = 0;  // of each expert
  bool normalize = true;     // the weights of a token's experts sum to 1
};

// Angles of a rotary embedding: position * frequencies[i], i < R/2, of which
// the cosines and sines are multiplied by `magnitude`. Empty frequencies: those
// are not known here, R is `size`.
struct RotaryForm {
  std::string name;  // of the tables: NAME.cos.weight, NAME.sin.weight
  int64_t size = 0;  // R: the first elements of a head, which are rotated
  std::vector<double> frequencies = {};
  double magnitude = 1;
};

struct LayerForm {
  int64_t window = 0;  // a token sees this many, itself included; 0: all
  int rotary = 0;      // of DecoderConfig::rotary; -1: no rotation
  bool experts = false;
  double scale = 0;  // of the scores; 0: 1 / sqrt(head size)
};

// Names of a decoder's modules. A weight is MODULE.weight, a bias
// MODULE + `bias`; ops are called as the module that they are of. Modules of
// layers stand behind `layer`, in which {} is its number. An empty norm is not
// there.
struct DecoderNames {
  std::string embedding = "embed_tokens", positions = "embed_positions";
  std::string layer = "layer{}.";
  std::string attention_norm = "input_norm", mlp_norm = "post_attention_norm";
  // Norms of what attention and feed-forward layers give, before it is added.
  std::string after_attention, after_mlp;
  std::string q = "q_proj", k = "k_proj", v = "v_proj", qkv, o = "o_proj";
  std::string q_norm = "q_norm", k_norm = "k_norm";
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj";
  std::string router = "router", experts = "experts";
  std::string expert_gate = "gate_proj", expert_up = "up_proj",
              expert_down = "down_proj";
  std::string norm = "norm", head = "logits";
  std::string bias = ".bias.weight";
};

struct DecoderConfig {
  std::string name = "llama";  // of the program
  DecoderSizes sizes;
  int64_t kv_heads = 0;
  int64_t head_size = 0;
  int64_t intermediate = 0;  // of the dense feed-forward layers

  NormKind norm = NormKind::kRms;
  double eps = 1e-5;
  int64_t positions = 0;  // learned ones are added to the embedding; 0: none
  double embedding_scale = 1;
  bool tied = false;     // logits are computed with the embedding's table
  double logit_cap = 0;  // cap * tanh(logits / cap); 0: none

  QkvWeights qkv = QkvWeights::kApart;
  bool qkv_bias = false, o_bias = false, mlp_bias = false;
  bool in_out = false;  // matrices are [in, out], as those of GPT-2's Conv1D
  bool norm_heads = false;  // queries and keys, before they are rotated
  double score_cap = 0;     // of attention; 0: none
  // A gated op (swiglu, geglu_tanh, ...), or one of one operand, without gate.
  std::string activation = "swiglu";
  bool joined_gate = false;  // one matrix: gate, then up, called names.gate
  // x + attention(norm(x)) + mlp(norm(x)), instead of one after the other.
  bool parallel = false;

  ExpertSizes experts;
  std::vector<RotaryForm> rotary;
  std::vector<LayerForm> layers = {{}};  // repeated up to sizes.layers
  DecoderNames names;
};

// Inputs: ids i64[batch, seq], tables of rotary [seq, R/2], weights in the
// layout [out, in] (see in_out), those of experts [expert, out, in]. Output:
// logits [batch, seq, vocabulary].
// Errors: more tokens than positions, sizes that do not fit.
absl::StatusOr<Program> BuildDecoder(const DecoderConfig& config);

}  // namespace asyra
