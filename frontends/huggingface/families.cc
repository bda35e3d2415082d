#include "frontends/huggingface/families.h"

#include <cmath>
#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "fmt/format.h"
#include "frontends/huggingface/config_fields.h"
#include "frontends/huggingface/family_reader.h"
#include "frontends/huggingface/rope.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using Json = nlohmann::json;
using Sizes = FamilyReader::Sizes;

// Values of fields that files of a relative leave out.
struct LlamaDefaults {
  double eps = 1e-6, theta = 10000;
  int64_t head_size = 0;      // 0: heads share the width
  bool yarn_is_long = false;  // RopeSizes
};

// Reads all that llama shares with its relatives, which have their own layers.
void Llama(FamilyReader& r, const LlamaDefaults& defaults = {}) {
  r.Widths(defaults.head_size);
  r.LlamaNames();
  r.decoder.intermediate = r.fields.Count("intermediate_size");
  r.RmsEps(defaults.eps);
  r.Activation("hidden_act", "silu", true);
  r.Tied(false);
  bool bias = r.fields.Bool("attention_bias", false);
  r.decoder.qkv_bias = r.decoder.o_bias = bias;
  r.decoder.mlp_bias = r.fields.Bool("mlp_bias", false);
  RopeSizes rope = r.Ropes(defaults.theta);
  rope.yarn_is_long = defaults.yarn_is_long;
  r.decoder.rotary = {RopeOf(r.fields, kFullLayer, rope)};
}

void AllLayersAlike(FamilyReader& r) { r.decoder.layers.assign(r.layers, {}); }

// Every layer has the window.
void Windowed(FamilyReader& r, int64_t fallback = 0) {
  r.Layers(r.Window(fallback), [](int64_t) { return true; });
}

void Mistral(FamilyReader& r) {
  Llama(r);
  Windowed(r, 4096);
}

// Either name, whatever the family: versions differ.
int64_t ExpertCount(FamilyReader& r, int64_t fallback) {
  constexpr int64_t kMost = 1 << 16;
  fallback = r.fields.Count("num_local_experts", fallback);
  return r.Limited("num_experts", r.fields.Count("num_experts", fallback),
                   kMost);
}

void Mixtral(FamilyReader& r) {
  Llama(r, {.eps = 1e-5, .theta = 1e6});
  Windowed(r);
  r.decoder.experts = {.experts = ExpertCount(r, 8),
                       .chosen = r.fields.Count("num_experts_per_tok", 2),
                       .intermediate = r.decoder.intermediate};
  for (LayerForm& layer : r.decoder.layers) layer.experts = true;
  r.decoder.names.router = "block_sparse_moe.gate";
  r.decoder.names.experts = "block_sparse_moe.experts";
  r.decoder.names.expert_gate = "w1";
  r.decoder.names.expert_up = "w3";
  r.decoder.names.expert_down = "w2";
}

void QwenWindows(FamilyReader& r) {
  int64_t full = r.fields.Count("max_window_layers", 28, 0);
  r.Layers(r.WindowIfUsed(), [&](int64_t i) { return i >= full; });
}

void Qwen2(FamilyReader& r) {
  Llama(r);
  r.decoder.qkv_bias = true;
  r.decoder.o_bias = false;
  QwenWindows(r);
}

void Qwen3(FamilyReader& r) {
  Llama(r, {.head_size = 128});
  r.decoder.norm_heads = true;
  QwenWindows(r);
}

void Qwen3Moe(FamilyReader& r) {
  Llama(r);
  r.decoder.norm_heads = true;
  r.Layers(r.WindowIfUsed(), [](int64_t) { return true; });
  r.decoder.experts = {.experts = ExpertCount(r, 128),
                       .chosen = r.fields.Count("num_experts_per_tok", 8),
                       .intermediate = r.fields.Count("moe_intermediate_size"),
                       .normalize = r.fields.Bool("norm_topk_prob", false)};
  int64_t step = r.fields.Count("decoder_sparse_step", 1);
  std::vector<int64_t> dense = r.fields.Integers("mlp_only_layers");
  for (int64_t i = 0; i < r.layers; ++i) {
    r.decoder.layers[i].experts =
        (i + 1) % step == 0 && !absl::c_linear_search(dense, i);
  }
}

// Gemma: scales are 1 + weights, embeddings are multiplied by sqrt(width).
void Gemma(FamilyReader& r) {
  Llama(r, {.head_size = 256});
  r.Tied(true);
  // Files of 2024 say gelu and mean its approximation by tanh.
  std::string_view act =
      r.fields.Has("hidden_activation") ? "hidden_activation" : "hidden_act";
  if (r.fields.Text(act, "gelu") == "gelu") {
    r.decoder.activation = "geglu_tanh";
  } else {
    r.Activation(act, "gelu", true);
  }
  r.decoder.norm = NormKind::kRmsOfOneMore;
  r.decoder.embedding_scale =
      std::sqrt(static_cast<double>(r.decoder.sizes.hidden));
}

// Norms on both sides, caps, and a scale of scores of its own.
void Gemma2Blocks(FamilyReader& r) {
  Gemma(r);
  DecoderNames& n = r.decoder.names;
  n.after_attention = "post_attention_layernorm";
  n.mlp_norm = "pre_feedforward_layernorm";
  n.after_mlp = "post_feedforward_layernorm";
}

void Gemma2Scores(FamilyReader& r) {
  r.Refuse("use_bidirectional_attention", false,
           "is true, attention is causal here");
  r.ScoreScale(1 / std::sqrt(r.fields.Number("query_pre_attn_scalar", 256)));
}

// Null is none.
double CapOf(FamilyReader& r, std::string_view name, double fallback) {
  if (r.fields.Has(name)) return r.fields.Number(name);
  return r.fields.Says(name) ? 0 : fallback;
}

void Gemma2(FamilyReader& r) {
  Gemma2Blocks(r);
  r.Layers(r.fields.Count("sliding_window", 4096),
           [](int64_t i) { return i % 2 == 0; });
  Gemma2Scores(r);
  r.decoder.score_cap = CapOf(r, "attn_logit_softcapping", 50);
  r.decoder.logit_cap = CapOf(r, "final_logit_softcapping", 30);
}

void Gemma3(FamilyReader& r) {
  Gemma2Blocks(r);
  int64_t pattern = r.fields.Count("sliding_window_pattern", 6);
  r.Layers(r.fields.Count("sliding_window", 4096),
           [&](int64_t i) { return (i + 1) % pattern != 0; });
  Gemma2Scores(r);
  // transformers does not read its attn_logit_softcapping.
  r.decoder.logit_cap = CapOf(r, "final_logit_softcapping", 0);
  r.decoder.norm_heads = true;
  RopeSizes local = r.Ropes(r.fields.Number("rope_local_base_freq", 10000));
  local.apart = true;
  r.decoder.rotary = {RopeOf(r.fields, kFullLayer, r.Ropes(1e6)),
                      RopeOf(r.fields, kSlidingLayer, local)};
  r.decoder.rotary[1].name = "rotary_local";
  for (LayerForm& layer : r.decoder.layers)
    layer.rotary = layer.window > 0 ? 1 : 0;
}

void Phi3(FamilyReader& r) {
  Llama(r, {.eps = 1e-5, .yarn_is_long = true});
  Windowed(r);
  r.decoder.qkv = QkvWeights::kJoined;
  r.decoder.joined_gate = true;
  r.decoder.names.gate = "mlp.gate_up_proj";
}

void GptNeox(FamilyReader& r) {
  r.Widths();
  DecoderNames& n = r.decoder.names;
  r.model.prefix = "gpt_neox.";
  r.model.prefixes = {"gpt_neox.", ""};
  n.embedding = "gpt_neox.embed_in";
  n.layer = "gpt_neox.layers.{}.";
  n.attention_norm = "input_layernorm";
  n.mlp_norm = "post_attention_layernorm";
  n.qkv = "attention.query_key_value";
  n.o = "attention.dense";
  n.up = "mlp.dense_h_to_4h";
  n.down = "mlp.dense_4h_to_h";
  n.norm = "gpt_neox.final_layer_norm";
  n.head = "embed_out";
  n.bias = ".bias";
  r.decoder.norm = NormKind::kLayer;
  r.decoder.eps = r.fields.Number("layer_norm_eps", 1e-5);
  r.decoder.intermediate = r.fields.Count("intermediate_size");
  r.decoder.qkv = QkvWeights::kByHead;
  r.decoder.qkv_bias = r.decoder.o_bias = r.fields.Bool("attention_bias", true);
  r.decoder.mlp_bias = true;
  r.decoder.parallel = r.fields.Bool("use_parallel_residual", true);
  r.Activation("hidden_act", "gelu", false);
  r.Tied(false);
  RopeSizes rope = r.Ropes(r.fields.Number("rotary_emb_base", 10000));
  rope.partial = r.fields.Number("rotary_pct", 0.25);
  r.decoder.rotary = {RopeOf(r.fields, kFullLayer, rope)};
}

void Gpt2(FamilyReader& r) {
  r.decoder.sizes.hidden = r.fields.Count("n_embd");
  r.CountLayers("n_layer");
  r.decoder.sizes.heads = r.decoder.kv_heads = r.fields.Count("n_head");
  r.decoder.sizes.vocabulary = r.fields.Count("vocab_size");
  r.decoder.head_size = r.EvenHeads();
  r.positions = r.decoder.positions = r.fields.Count("n_positions", 1024);
  r.decoder.intermediate =
      r.fields.Count("n_inner", 4 * r.decoder.sizes.hidden);
  DecoderNames& n = r.decoder.names;
  r.model.prefix = "transformer.";
  r.model.prefixes = {"transformer.", ""};
  n.embedding = "transformer.wte";
  n.positions = "transformer.wpe";
  n.layer = "transformer.h.{}.";
  n.attention_norm = "ln_1";
  n.mlp_norm = "ln_2";
  n.qkv = "attn.c_attn";
  n.o = "attn.c_proj";
  n.up = "mlp.c_fc";
  n.down = "mlp.c_proj";
  n.norm = "transformer.ln_f";
  n.head = "lm_head";
  n.bias = ".bias";
  r.decoder.norm = NormKind::kLayer;
  r.decoder.eps = r.fields.Number("layer_norm_epsilon", 1e-5);
  r.decoder.qkv = QkvWeights::kJoined;
  r.decoder.qkv_bias = r.decoder.o_bias = r.decoder.mlp_bias =
      r.decoder.in_out = true;
  r.Activation("activation_function", "gelu_new", false);
  r.Tied(true);
  r.Refuse("add_cross_attention", false, "is true, there is no encoder here");
  bool scaled = r.fields.Bool("scale_attn_weights", true);
  bool by_layer = r.fields.Bool("scale_attn_by_inverse_layer_idx", false);
  r.decoder.layers.assign(r.layers, LayerForm{.rotary = -1});
  for (int64_t i = 0; i < r.layers; ++i) {
    double scale =
        scaled ? 1 / std::sqrt(static_cast<double>(r.decoder.head_size)) : 1;
    r.decoder.layers[i].scale =
        by_layer ? scale / static_cast<double>(i + 1) : scale;
  }
}

struct Family {
  std::string_view name;
  void (*read)(FamilyReader&);
};
constexpr Family kFamilies[] = {
    {"gemma", [](FamilyReader& r) { Gemma(r), AllLayersAlike(r); }},
    {"gemma2", Gemma2},
    {"gemma3", Gemma3},
    {"gemma3_text", Gemma3},
    {"gpt2", Gpt2},
    {"gpt_neox", GptNeox},
    {"llama", [](FamilyReader& r) { Llama(r), AllLayersAlike(r); }},
    {"mistral", Mistral},
    {"mixtral", Mixtral},
    {"phi3", Phi3},
    {"qwen2", Qwen2},
    {"qwen3", Qwen3},
    {"qwen3_moe", Qwen3Moe},
};

// Class defaults that files of models with images leave out.
Json WithDefaults(const std::string& type, const Json& config) {
  if (type != "gemma3" && type != "gemma3_text") return config;
  Json fields = {
      {"vocab_size", 262208},      {"hidden_size", 2304},
      {"intermediate_size", 9216}, {"num_hidden_layers", 26},
      {"num_attention_heads", 8},  {"num_key_value_heads", 4},
      {"head_dim", 256},           {"max_position_embeddings", 131072}};
  fields.update(config);
  return fields;
}

constexpr std::pair<std::string_view, DType> kDTypes[] = {
    {"float32", DType::kF32},
    {"bfloat16", DType::kBF16},
    {"float16", DType::kF16},
    {"float64", DType::kF64}};

// Only heads that give logits: others have weights of their own.
absl::Status CheckArchitecture(ConfigFields& fields) {
  for (const std::string& name : fields.Texts("architectures")) {
    if (absl::EndsWith(name, "ForCausalLM") ||
        absl::EndsWith(name, "LMHeadModel") || absl::EndsWith(name, "Model") ||
        absl::EndsWith(name, "ForConditionalGeneration")) {
      continue;
    }
    return Invalid("architectures: is '{}', it should end in ForCausalLM",
                   name);
  }
  if (fields.Has("quantization_config")) {
    return Invalid("quantization_config: quantized weights are not read");
  }
  return absl::OkStatus();
}

absl::Status SetSizesOf(FamilyReader& r, const Sizes& sizes) {
  DecoderSizes& own = r.decoder.sizes;
  own.batch = 1;
  own.seq = r.Seq();
  own.layers = r.layers;
  own.logits = 0;
  std::vector<SizeField> fields = {{"batch", &own.batch},
                                   {"seq", &own.seq},
                                   {"layers", &own.layers},
                                   {"logits", &own.logits}};
  if (r.decoder.experts.experts > 0) {
    fields.push_back({"capacity_percent", &r.decoder.experts.capacity_percent});
  }
  return SetSizes(fields, sizes, "; others are in config.json");
}

void SetDType(ConfigFields& fields, FamilyReader& r) {
  std::string name = fields.Text("dtype", fields.Text("torch_dtype", ""));
  r.decoder.sizes.dtype = DType::kBF16;
  if (name.empty()) return;
  for (const auto& [known, dtype] : kDTypes) {
    if (known != name) continue;
    r.decoder.sizes.dtype = dtype;
    r.model.says_dtype = true;
    return;
  }
  fields.Refuse("dtype", fmt::format("is '{}', known are float64, float32, "
                                     "bfloat16, float16",
                                     name));
}

}  // namespace

std::string KnownFamilies() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) names.push_back(family.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

absl::StatusOr<FamilyModel> ReadFamily(const Json& config, const Sizes& sizes) {
  ConfigFields whole(config);
  ASYRA_RETURN_IF_ERROR(CheckArchitecture(whole));
  std::string type = whole.Text("model_type", "");
  const Json* text = whole.Find("text_config");
  bool nested = text != nullptr && text->is_object();
  const Family* family = absl::c_find_if(
      kFamilies, [&](const Family& known) { return known.name == type; });
  if (family == std::end(kFamilies)) {
    return Invalid("model_type: is '{}', known are {}", type, KnownFamilies());
  }
  Json own = WithDefaults(type, nested ? *text : config);
  ConfigFields fields(own, nested ? "text_config." : "");
  FamilyReader reader(fields, sizes);
  family->read(reader);
  reader.decoder.name = type;
  SetDType(nested && !fields.Has("dtype") && !fields.Has("torch_dtype")
               ? whole
               : fields,
           reader);
  ASYRA_RETURN_IF_ERROR(fields.status());
  ASYRA_RETURN_IF_ERROR(whole.status());
  ASYRA_RETURN_IF_ERROR(SetSizesOf(reader, sizes));
  return std::move(reader.model);
}

}  // namespace asyra
