#include "frontends/huggingface/families.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "fmt/format.h"
#include "frontends/huggingface/config_fields.h"
#include "frontends/huggingface/rope.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using Json = nlohmann::json;
using Sizes = std::map<std::string, int64_t>;

constexpr std::string_view kSliding = "sliding_attention";
constexpr std::string_view kFull = "full_attention";
constexpr int64_t kMostLayers = 4096;
constexpr int64_t kMostOfAHead = 1 << 16;  // elements

int64_t SizeOr(const Sizes& sizes, std::string_view name, int64_t fallback) {
  auto found = sizes.find(std::string(name));
  return found == sizes.end() ? fallback : found->second;
}

// An activation's name in config.json, alone and with a gate.
struct Activation {
  std::string_view name, op, gated;
};
constexpr Activation kActivations[] = {
    {"silu", "silu", "swiglu"},
    {"swish", "silu", "swiglu"},
    {"gelu", "gelu", "geglu"},
    {"gelu_new", "gelu_tanh", "geglu_tanh"},
    {"gelu_fast", "gelu_tanh", "geglu_tanh"},
    {"gelu_pytorch_tanh", "gelu_tanh", "geglu_tanh"},
    {"relu", "relu", "reglu"},
};

// The family's reader fills what differs from llama.
class Reader {
 public:
  Reader(ConfigFields& fields, const Sizes& sizes)
      : f(fields), sizes_(sizes), d(model.decoder) {}

  // Each is ops of its own: these compile in minutes.
  void CountLayers(std::string_view field) {
    layers = Limited(field, f.Count(field), kMostLayers);
  }

  int64_t Limited(std::string_view field, int64_t count, int64_t most) {
    if (count <= most) return count;
    f.Refuse(field, fmt::format("is {}, it should be at most {}", count, most));
    return 1;
  }

  // Sizes by the names of most families.
  void Widths() {
    d.sizes.hidden = f.Count("hidden_size");
    CountLayers("num_hidden_layers");
    d.sizes.heads = f.Count("num_attention_heads");
    d.sizes.vocabulary = f.Count("vocab_size");
    d.kv_heads = f.Count("num_key_value_heads", d.sizes.heads);
    positions = f.Count("max_position_embeddings", 2048);
    d.head_size = f.Has("head_dim")
                      ? Limited("head_dim", f.Count("head_dim"), kMostOfAHead)
                      : EvenHeads();
  }

  int64_t EvenHeads() {
    if (d.sizes.hidden % d.sizes.heads != 0) {
      f.Refuse("num_attention_heads",
               fmt::format("is {}, hidden_size is {}: not a multiple of it",
                           d.sizes.heads, d.sizes.hidden));
    }
    return Limited("hidden_size / num_attention_heads",
                   d.sizes.hidden / d.sizes.heads, kMostOfAHead);
  }

  void Rms(double eps) { d.eps = f.Number("rms_norm_eps", eps); }

  void Act(std::string_view field, std::string_view fallback, bool gated) {
    std::string name = f.Text(field, fallback);
    for (const Activation& known : kActivations) {
      if (known.name == name) {
        d.activation = gated ? known.gated : known.op;
        return;
      }
    }
    std::vector<std::string_view> names;
    for (const Activation& known : kActivations) names.push_back(known.name);
    f.Refuse(field, fmt::format("is '{}', known are {}", name,
                                fmt::join(names, ", ")));
  }

  void Tied(bool fallback) { d.tied = f.Bool("tie_word_embeddings", fallback); }

  // Places and names of llama's modules, which most families have.
  void LlamaNames() {
    DecoderNames& n = d.names;
    model.prefix = "model.";
    model.prefixes = {"model.", "", "language_model.model.",
                      "model.language_model."};
    n.embedding = "model.embed_tokens";
    n.layer = "model.layers.{}.";
    n.attention_norm = "input_layernorm";
    n.mlp_norm = "post_attention_layernorm";
    n.q = "self_attn.q_proj";
    n.k = "self_attn.k_proj";
    n.v = "self_attn.v_proj";
    n.qkv = "self_attn.qkv_proj";
    n.o = "self_attn.o_proj";
    n.q_norm = "self_attn.q_norm";
    n.k_norm = "self_attn.k_norm";
    n.gate = "mlp.gate_proj";
    n.up = "mlp.up_proj";
    n.down = "mlp.down_proj";
    n.router = "mlp.gate";
    n.experts = "mlp.experts";
    n.norm = "model.norm";
    n.head = "lm_head";
    n.bias = ".bias";
  }

  // Layers by their types: those that the file lists, or `is_sliding` of each.
  template <typename IsSliding>
  void Layers(int64_t window, IsSliding is_sliding) {
    std::vector<std::string> types = f.Texts("layer_types");
    if (types.empty()) {
      for (int64_t i = 0; i < layers; ++i) {
        types.emplace_back(window > 0 && is_sliding(i) ? kSliding : kFull);
      }
    }
    if (static_cast<int64_t>(types.size()) != layers) {
      f.Refuse("layer_types", fmt::format("are {}, num_hidden_layers is {}",
                                          types.size(), layers));
      types.resize(layers);
    }
    d.layers.clear();
    for (const std::string& type : types) {
      LayerForm layer;
      if (type == kSliding) {
        if (window == 0) f.Refuse("sliding_window", "is missing");
        layer.window = window;
      } else if (type != kFull) {
        f.Refuse("layer_types", fmt::format("'{}' is not known, {} and {} are",
                                            type, kFull, kSliding));
      }
      d.layers.push_back(layer);
    }
  }

  // 0: none, which null says.
  int64_t Window(int64_t fallback = 0) {
    if (f.Has("sliding_window")) return f.Count("sliding_window");
    return f.Says("sliding_window") ? 0 : fallback;
  }

  // Qwen's: only where it is asked for.
  int64_t WindowIfUsed() {
    return f.Bool("use_sliding_window", false) ? Window(4096) : 0;
  }

  RopeSizes Ropes(double theta = 10000, double partial = 1) {
    return {.head_size = d.head_size,
            .seq = Seq(),
            .theta = theta,
            .partial = partial,
            .positions = positions};
  }

  void OneRope(double theta = 10000, double partial = 1) {
    d.rotary = {RopeOf(f, kFull, Ropes(theta, partial))};
  }

  int64_t Seq() const {
    return SizeOr(sizes_, "seq", std::min<int64_t>(positions, 2048));
  }

  // One scale of scores for all layers.
  void ScoreScale(double scale) {
    for (LayerForm& layer : d.layers) layer.scale = scale;
  }

  void Refuse(std::string_view name, bool unless, std::string_view why) {
    if (f.Bool(name, unless) != unless) f.Refuse(name, why);
  }

  ConfigFields& f;
  const Sizes& sizes_;
  FamilyModel model;
  DecoderConfig& d;
  int64_t layers = 0, positions = 2048;
};

// Reads all that llama shares with its relatives, which have their own layers.
void Llama(Reader& r, double eps = 1e-6, double theta = 10000) {
  r.Widths();
  r.LlamaNames();
  r.d.intermediate = r.f.Count("intermediate_size");
  r.Rms(eps);
  r.Act("hidden_act", "silu", true);
  r.Tied(false);
  bool bias = r.f.Bool("attention_bias", false);
  r.d.qkv_bias = r.d.o_bias = bias;
  r.d.mlp_bias = r.f.Bool("mlp_bias", false);
  r.OneRope(theta);
}

void AllLayersAlike(Reader& r) { r.d.layers.assign(r.layers, {}); }

// Every layer has the window.
void Windowed(Reader& r, int64_t fallback = 0) {
  r.Layers(r.Window(fallback), [](int64_t) { return true; });
}

void Mistral(Reader& r) {
  Llama(r);
  Windowed(r, 4096);
}

// Either name, whatever the family: versions differ.
int64_t ExpertCount(Reader& r, int64_t fallback) {
  constexpr int64_t kMost = 1 << 16;
  fallback = r.f.Count("num_local_experts", fallback);
  return r.Limited("num_experts", r.f.Count("num_experts", fallback), kMost);
}

void Mixtral(Reader& r) {
  Llama(r, 1e-5, 1e6);
  Windowed(r);
  r.d.experts = {.experts = ExpertCount(r, 8),
                 .chosen = r.f.Count("num_experts_per_tok", 2),
                 .intermediate = r.d.intermediate};
  for (LayerForm& layer : r.d.layers) layer.experts = true;
  r.d.names.router = "block_sparse_moe.gate";
  r.d.names.experts = "block_sparse_moe.experts";
  r.d.names.expert_gate = "w1";
  r.d.names.expert_up = "w3";
  r.d.names.expert_down = "w2";
}

void QwenWindows(Reader& r) {
  int64_t full = r.f.Count("max_window_layers", 28, 0);
  r.Layers(r.WindowIfUsed(), [&](int64_t i) { return i >= full; });
}

void Qwen2(Reader& r) {
  Llama(r);
  r.d.qkv_bias = true;
  r.d.o_bias = false;
  QwenWindows(r);
}

void Qwen3(Reader& r) {
  Llama(r);
  if (!r.f.Has("head_dim")) r.d.head_size = 128;
  r.OneRope();
  r.d.norm_heads = true;
  QwenWindows(r);
}

void Qwen3Moe(Reader& r) {
  Llama(r);
  r.d.norm_heads = true;
  r.Layers(r.WindowIfUsed(), [](int64_t) { return true; });
  r.d.experts = {.experts = ExpertCount(r, 128),
                 .chosen = r.f.Count("num_experts_per_tok", 8),
                 .intermediate = r.f.Count("moe_intermediate_size"),
                 .normalize = r.f.Bool("norm_topk_prob", false)};
  int64_t step = r.f.Count("decoder_sparse_step", 1);
  std::vector<int64_t> dense = r.f.Integers("mlp_only_layers");
  for (int64_t i = 0; i < r.layers; ++i) {
    r.d.layers[i].experts =
        (i + 1) % step == 0 && !absl::c_linear_search(dense, i);
  }
}

// Gemma: scales are 1 + weights, embeddings are multiplied by sqrt(width).
void Gemma(Reader& r) {
  Llama(r);
  if (!r.f.Has("head_dim")) r.d.head_size = 256;
  r.OneRope();
  r.Tied(true);
  // Files of 2024 say gelu and mean its approximation by tanh.
  std::string_view act =
      r.f.Has("hidden_activation") ? "hidden_activation" : "hidden_act";
  if (r.f.Text(act, "gelu") == "gelu") {
    r.d.activation = "geglu_tanh";
  } else {
    r.Act(act, "gelu", true);
  }
  r.d.norm = NormKind::kRmsOfOneMore;
  r.d.embedding_scale = std::sqrt(static_cast<double>(r.d.sizes.hidden));
}

// Norms on both sides, caps, and a scale of scores of its own.
void Gemma2Blocks(Reader& r) {
  Gemma(r);
  DecoderNames& n = r.d.names;
  n.after_attention = "post_attention_layernorm";
  n.mlp_norm = "pre_feedforward_layernorm";
  n.after_mlp = "post_feedforward_layernorm";
}

void Gemma2Scores(Reader& r) {
  r.Refuse("use_bidirectional_attention", false,
           "is true, attention is causal here");
  r.ScoreScale(1 / std::sqrt(r.f.Number("query_pre_attn_scalar", 256)));
}

// Null is none.
double CapOf(Reader& r, std::string_view name, double fallback) {
  if (r.f.Has(name)) return r.f.Number(name);
  return r.f.Says(name) ? 0 : fallback;
}

void Gemma2(Reader& r) {
  Gemma2Blocks(r);
  r.Layers(r.f.Count("sliding_window", 4096),
           [](int64_t i) { return i % 2 == 0; });
  Gemma2Scores(r);
  r.d.score_cap = CapOf(r, "attn_logit_softcapping", 50);
  r.d.logit_cap = CapOf(r, "final_logit_softcapping", 30);
}

void Gemma3(Reader& r) {
  Gemma2Blocks(r);
  int64_t pattern = r.f.Count("sliding_window_pattern", 6);
  r.Layers(r.f.Count("sliding_window", 4096),
           [&](int64_t i) { return (i + 1) % pattern != 0; });
  Gemma2Scores(r);
  // transformers does not read its attn_logit_softcapping.
  r.d.logit_cap = CapOf(r, "final_logit_softcapping", 0);
  r.d.norm_heads = true;
  RopeSizes local = r.Ropes(r.f.Number("rope_local_base_freq", 10000));
  local.apart = true;
  r.d.rotary = {RopeOf(r.f, kFull, r.Ropes(1e6)), RopeOf(r.f, kSliding, local)};
  r.d.rotary[1].name = "rotary_local";
  for (LayerForm& layer : r.d.layers) layer.rotary = layer.window > 0 ? 1 : 0;
}

void Phi3(Reader& r) {
  Llama(r, 1e-5);
  Windowed(r);
  RopeSizes sizes = r.Ropes();
  sizes.yarn_is_long = true;
  r.d.rotary = {RopeOf(r.f, kFull, sizes)};
  r.d.qkv = QkvWeights::kJoined;
  r.d.joined_gate = true;
  r.d.names.gate = "mlp.gate_up_proj";
}

void GptNeox(Reader& r) {
  r.Widths();
  DecoderNames& n = r.d.names;
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
  r.d.norm = NormKind::kLayer;
  r.d.eps = r.f.Number("layer_norm_eps", 1e-5);
  r.d.intermediate = r.f.Count("intermediate_size");
  r.d.qkv = QkvWeights::kByHead;
  r.d.qkv_bias = r.d.o_bias = r.f.Bool("attention_bias", true);
  r.d.mlp_bias = true;
  r.d.parallel = r.f.Bool("use_parallel_residual", true);
  r.Act("hidden_act", "gelu", false);
  r.Tied(false);
  r.OneRope(r.f.Number("rotary_emb_base", 10000),
            r.f.Number("rotary_pct", 0.25));
}

void Gpt2(Reader& r) {
  r.d.sizes.hidden = r.f.Count("n_embd");
  r.CountLayers("n_layer");
  r.d.sizes.heads = r.d.kv_heads = r.f.Count("n_head");
  r.d.sizes.vocabulary = r.f.Count("vocab_size");
  r.d.head_size = r.EvenHeads();
  r.positions = r.d.positions = r.f.Count("n_positions", 1024);
  r.d.intermediate = r.f.Count("n_inner", 4 * r.d.sizes.hidden);
  DecoderNames& n = r.d.names;
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
  r.d.norm = NormKind::kLayer;
  r.d.eps = r.f.Number("layer_norm_epsilon", 1e-5);
  r.d.qkv = QkvWeights::kJoined;
  r.d.qkv_bias = r.d.o_bias = r.d.mlp_bias = r.d.in_out = true;
  r.Act("activation_function", "gelu_new", false);
  r.Tied(true);
  r.Refuse("add_cross_attention", false, "is true, there is no encoder here");
  bool scaled = r.f.Bool("scale_attn_weights", true);
  bool by_layer = r.f.Bool("scale_attn_by_inverse_layer_idx", false);
  r.d.layers.assign(r.layers, LayerForm{.rotary = -1});
  for (int64_t i = 0; i < r.layers; ++i) {
    double scale =
        scaled ? 1 / std::sqrt(static_cast<double>(r.d.head_size)) : 1;
    r.d.layers[i].scale = by_layer ? scale / static_cast<double>(i + 1) : scale;
  }
}

struct Family {
  std::string_view name;
  void (*read)(Reader&);
};
constexpr Family kFamilies[] = {
    {"gemma", [](Reader& r) { Gemma(r), AllLayersAlike(r); }},
    {"gemma2", Gemma2},
    {"gemma3", Gemma3},
    {"gemma3_text", Gemma3},
    {"gpt2", Gpt2},
    {"gpt_neox", GptNeox},
    {"llama", [](Reader& r) { Llama(r), AllLayersAlike(r); }},
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

absl::Status SetSizes(const Sizes& sizes, Reader& r) {
  constexpr std::string_view kKnown[] = {"batch", "seq", "layers", "logits",
                                         "capacity_percent"};
  for (const auto& [name, size] : sizes) {
    bool experts = r.d.experts.experts > 0;
    size_t known = std::size(kKnown) - (experts ? 0 : 1);
    if (!absl::c_linear_search(absl::MakeSpan(kKnown).first(known), name)) {
      return Invalid("no size {}, it has {}; others are in config.json", name,
                     fmt::join(kKnown, kKnown + known, ", "));
    }
    bool may_be_0 = name == "layers" || name == "capacity_percent";
    if (size < (may_be_0 ? 0 : 1)) {
      return Invalid("{} is {}, it should be at least {}", name, size,
                     may_be_0 ? 0 : 1);
    }
  }
  r.d.sizes.batch = SizeOr(sizes, "batch", 1);
  r.d.sizes.seq = r.Seq();
  r.d.sizes.layers = SizeOr(sizes, "layers", r.layers);
  r.d.sizes.logits = SizeOr(sizes, "logits", 0);
  r.d.experts.capacity_percent = SizeOr(sizes, "capacity_percent", 0);
  if (r.d.sizes.layers > kMostLayers) {
    return Invalid("layers is {}, it should be at most {}", r.d.sizes.layers,
                   kMostLayers);
  }
  return absl::OkStatus();
}

void SetDType(ConfigFields& fields, Reader& r) {
  std::string name = fields.Text("dtype", fields.Text("torch_dtype", ""));
  r.d.sizes.dtype = DType::kBF16;
  if (name.empty()) return;
  for (const auto& [known, dtype] : kDTypes) {
    if (known != name) continue;
    r.d.sizes.dtype = dtype;
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
  Reader reader(fields, sizes);
  family->read(reader);
  reader.d.name = type;
  SetDType(nested && !fields.Has("dtype") && !fields.Has("torch_dtype")
               ? whole
               : fields,
           reader);
  ASYRA_RETURN_IF_ERROR(fields.status());
  ASYRA_RETURN_IF_ERROR(whole.status());
  ASYRA_RETURN_IF_ERROR(SetSizes(sizes, reader));
  return std::move(reader.model);
}

}  // namespace asyra
