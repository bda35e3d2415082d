#include "models/models.h"

#include <vector>

#include "fmt/format.h"
#include "ir/support/status.h"
#include "models/decoder.h"

namespace asyra {
namespace {

constexpr double kUsualRotaryBase = 10000;

std::vector<SizeField> FieldsOf(DecoderConfig* config) {
  std::vector<SizeField> fields = SizeFields(&config->sizes);
  if (config->positions > 0) {  // learned ones, and GPT's other sizes follow
    fields.push_back({"positions", &config->positions});
    return fields;
  }
  bool experts = config->experts.experts > 0;
  fields.insert(fields.end(),
                {{"kv_heads", &config->kv_heads},
                 {"head_size", &config->head_size},
                 {"intermediate", experts ? &config->experts.intermediate
                                          : &config->intermediate}});
  if (experts) {
    fields.insert(fields.end(),
                  {{"experts", &config->experts.experts},
                   {"chosen", &config->experts.chosen},
                   {"capacity_percent", &config->experts.capacity_percent}});
  }
  return fields;
}

using Sizes = std::map<std::string, int64_t>;

struct Model {
  std::string_view name;
  DecoderConfig config;
  double rotary_base = kUsualRotaryBase;
};

constexpr DecoderSizes kTiny = {.layers = 2,
                                .hidden = 64,
                                .heads = 8,
                                .vocabulary = 256,
                                .batch = 4,
                                .seq = 64,
                                .dtype = DType::kF32};

// GPT-2 and GPT-3: layer_norm, learned positions, biases, and gelu.
DecoderConfig Gpt(const DecoderSizes& sizes) {
  DecoderConfig config = {.name = "gpt",
                          .sizes = sizes,
                          .norm = NormKind::kLayer,
                          .positions = sizes.seq,
                          .tied = true,
                          .qkv_bias = true,
                          .o_bias = true,
                          .mlp_bias = true,
                          .in_out = true,
                          .activation = "gelu_tanh",
                          .layers = {{.rotary = -1}}};
  config.names.attention_norm = "attention_norm";
  config.names.mlp_norm = "mlp_norm";
  return config;
}

DecoderConfig Gpt(int64_t layers, int64_t hidden, int64_t heads,
                  int64_t batch = 2, int64_t seq = 2048) {
  return Gpt(DecoderSizes{.layers = layers,
                          .hidden = hidden,
                          .heads = heads,
                          .vocabulary = 50304,  // 50257, padded to 128
                          .batch = batch,
                          .seq = seq,
                          .dtype = DType::kBF16});
}

// Llama 3: rms_norm, rotary positions, gated feed-forward layers.
DecoderConfig Llama(const DecoderSizes& sizes, int64_t kv_heads,
                    int64_t head_size, int64_t intermediate) {
  return {.sizes = sizes,
          .kv_heads = kv_heads,
          .head_size = head_size,
          .intermediate = intermediate,
          .rotary = {{.name = "rotary"}}};
}

// Qwen3 MoE: the same with norms of heads, and experts.
DecoderConfig Qwen(const DecoderSizes& sizes, int64_t kv_heads,
                   int64_t head_size, const ExpertSizes& experts) {
  DecoderConfig config = Llama(sizes, kv_heads, head_size, 0);
  config.name = "qwen3_moe";
  config.eps = 1e-6;
  config.norm_heads = true;
  config.experts = experts;
  config.layers = {{.experts = true}};
  return config;
}

DecoderSizes LargeSizes(int64_t layers, int64_t hidden, int64_t heads,
                        int64_t vocabulary) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = heads,
          .vocabulary = vocabulary,
          .batch = 2,
          .seq = 8192,
          .dtype = DType::kBF16};
}

const std::vector<Model>& Models() {
  static const auto* models = new std::vector<Model>{
      {"gpt2-124m", Gpt(12, 768, 12, 4, 1024)},
      {"gpt3-125m", Gpt(12, 768, 12)},
      {"gpt3-6.7b", Gpt(32, 4096, 32)},
      {"gpt3-175b", Gpt(96, 12288, 96)},
      {"gpt3-tiny", Gpt(kTiny)},
      {"llama3-8b", Llama(LargeSizes(32, 4096, 32, 128256), 8, 128, 14336),
       500000},
      {"llama3-70b", Llama(LargeSizes(80, 8192, 64, 128256), 8, 128, 28672),
       500000},
      {"llama3-tiny", Llama(kTiny, 4, 8, 192)},
      {"qwen3-30b-a3b",
       Qwen(LargeSizes(48, 2048, 32, 151936), 4, 128,
            {.experts = 128,
             .chosen = 8,
             .capacity_percent = 125,
             .intermediate = 768}),
       1e6},
      {"qwen3-moe-tiny",
       Qwen(kTiny, 4, 8, {.experts = 8, .chosen = 2, .intermediate = 96})}};
  return *models;
}

absl::StatusOr<DecoderConfig> Sized(DecoderConfig config, const Sizes& sizes) {
  ASYRA_RETURN_IF_ERROR(SetSizes(FieldsOf(&config), sizes));
  if (config.sizes.hidden % config.sizes.heads != 0) {
    return Invalid("hidden is {}, not a multiple of {} heads",
                   config.sizes.hidden, config.sizes.heads);
  }
  if (config.positions > 0) {  // GPT: its sizes follow from the width
    config.kv_heads = config.sizes.heads;
    config.head_size = config.sizes.hidden / config.sizes.heads;
    config.intermediate = 4 * config.sizes.hidden;
  }
  for (RotaryForm& form : config.rotary) form.size = config.head_size;
  return config;
}

}  // namespace

double RotaryBase(std::string_view name) {
  for (const Model& model : Models()) {
    if (model.name == name) return model.rotary_base;
  }
  return kUsualRotaryBase;
}

std::string BuiltinModelNames() {
  std::string names;
  for (const Model& model : Models()) {
    if (!names.empty()) names += ", ";
    names += model.name;
  }
  return names;
}

absl::StatusOr<DecoderConfig> BuiltinDecoder(
    std::string_view name, const std::map<std::string, int64_t>& sizes) {
  for (const Model& model : Models()) {
    if (model.name == name) return Sized(model.config, sizes);
  }
  return NotFound("no such file, and no built-in model (known: {})",
                  BuiltinModelNames());
}

absl::StatusOr<Program> BuiltinModel(
    std::string_view name, const std::map<std::string, int64_t>& sizes) {
  auto build = [&]() -> absl::StatusOr<Program> {
    ASYRA_ASSIGN_OR_RETURN(DecoderConfig config, BuiltinDecoder(name, sizes));
    return BuildDecoder(config);
  };
  absl::StatusOr<Program> program = build();
  if (!program.ok()) return Annotate(program.status(), name);
  return program;
}

}  // namespace asyra
