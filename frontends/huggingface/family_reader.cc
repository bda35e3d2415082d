#include "frontends/huggingface/family_reader.h"

#include <algorithm>
#include <vector>

#include "fmt/format.h"

namespace asyra {
namespace {

constexpr int64_t kMostOfAHead = 1 << 16;  // elements

// An activation's name in config.json, alone and with a gate.
struct Spelling {
  std::string_view name, op, gated;
};
constexpr Spelling kActivations[] = {
    {"silu", "silu", "swiglu"},
    {"swish", "silu", "swiglu"},
    {"gelu", "gelu", "geglu"},
    {"gelu_new", "gelu_tanh", "geglu_tanh"},
    {"gelu_fast", "gelu_tanh", "geglu_tanh"},
    {"gelu_pytorch_tanh", "gelu_tanh", "geglu_tanh"},
    {"relu", "relu", "reglu"},
};

}  // namespace

int64_t SizeOr(const FamilyReader::Sizes& sizes, std::string_view name,
               int64_t fallback) {
  auto found = sizes.find(std::string(name));
  return found == sizes.end() ? fallback : found->second;
}

void FamilyReader::CountLayers(std::string_view field) {
  layers = Limited(field, fields.Count(field), kMostLayers);
}

int64_t FamilyReader::Limited(std::string_view field, int64_t count,
                              int64_t most) {
  if (count <= most) return count;
  fields.Refuse(field,
                fmt::format("is {}, it should be at most {}", count, most));
  return 1;
}

void FamilyReader::Widths(int64_t head_size) {
  decoder.sizes.hidden = fields.Count("hidden_size");
  CountLayers("num_hidden_layers");
  decoder.sizes.heads = fields.Count("num_attention_heads");
  decoder.sizes.vocabulary = fields.Count("vocab_size");
  decoder.kv_heads = fields.Count("num_key_value_heads", decoder.sizes.heads);
  positions = fields.Count("max_position_embeddings", 2048);
  if (fields.Has("head_dim")) head_size = fields.Count("head_dim");
  decoder.head_size = head_size == 0
                          ? EvenHeads()
                          : Limited("head_dim", head_size, kMostOfAHead);
}

int64_t FamilyReader::EvenHeads() {
  if (decoder.sizes.hidden % decoder.sizes.heads != 0) {
    fields.Refuse("num_attention_heads",
                  fmt::format("is {}, hidden_size is {}: not a multiple of it",
                              decoder.sizes.heads, decoder.sizes.hidden));
  }
  return Limited("hidden_size / num_attention_heads",
                 decoder.sizes.hidden / decoder.sizes.heads, kMostOfAHead);
}

void FamilyReader::RmsEps(double fallback) {
  decoder.eps = fields.Number("rms_norm_eps", fallback);
}

void FamilyReader::Activation(std::string_view field, std::string_view fallback,
                              bool gated) {
  std::string name = fields.Text(field, fallback);
  for (const Spelling& known : kActivations) {
    if (known.name == name) {
      decoder.activation = gated ? known.gated : known.op;
      return;
    }
  }
  std::vector<std::string_view> names;
  for (const Spelling& known : kActivations) names.push_back(known.name);
  fields.Refuse(field, fmt::format("is '{}', known are {}", name,
                                   fmt::join(names, ", ")));
}

void FamilyReader::Tied(bool fallback) {
  decoder.tied = fields.Bool("tie_word_embeddings", fallback);
}

void FamilyReader::LlamaNames() {
  DecoderNames& n = decoder.names;
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

void FamilyReader::Layers(int64_t window,
                          const std::function<bool(int64_t)>& is_sliding) {
  std::vector<std::string> types = fields.Texts("layer_types");
  if (types.empty()) {
    for (int64_t i = 0; i < layers; ++i) {
      types.emplace_back(window > 0 && is_sliding(i) ? kSlidingLayer
                                                     : kFullLayer);
    }
  }
  if (static_cast<int64_t>(types.size()) != layers) {
    fields.Refuse("layer_types", fmt::format("are {}, num_hidden_layers is {}",
                                             types.size(), layers));
    types.resize(layers);
  }
  decoder.layers.clear();
  for (const std::string& type : types) {
    LayerForm layer;
    if (type == kSlidingLayer) {
      if (window == 0) fields.Refuse("sliding_window", "is missing");
      layer.window = window;
    } else if (type != kFullLayer) {
      fields.Refuse("layer_types",
                    fmt::format("'{}' is not known, {} and {} are", type,
                                kFullLayer, kSlidingLayer));
    }
    decoder.layers.push_back(layer);
  }
}

int64_t FamilyReader::Window(int64_t fallback) {
  if (fields.Has("sliding_window")) return fields.Count("sliding_window");
  return fields.Says("sliding_window") ? 0 : fallback;
}

int64_t FamilyReader::WindowIfUsed() {
  return fields.Bool("use_sliding_window", false) ? Window(4096) : 0;
}

RopeSizes FamilyReader::Ropes(double theta) const {
  return {.head_size = decoder.head_size,
          .seq = Seq(),
          .theta = theta,
          .positions = positions};
}

int64_t FamilyReader::Seq() const {
  return SizeOr(sizes_, "seq", std::min<int64_t>(positions, 2048));
}

void FamilyReader::ScoreScale(double scale) {
  for (LayerForm& layer : decoder.layers) layer.scale = scale;
}

void FamilyReader::Refuse(std::string_view name, bool unless,
                          std::string_view why) {
  if (fields.Bool(name, unless) != unless) fields.Refuse(name, why);
}

}  // namespace asyra
