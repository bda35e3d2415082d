#include "models/models.h"

#include <functional>

#include "fmt/format.h"
#include "ir/support/status.h"
#include "models/gpt.h"
#include "models/llama.h"

namespace asyra {
namespace {

constexpr double kUsualRotaryBase = 10000;

std::vector<SizeField> FieldsOf(LlamaConfig* config) {
  std::vector<SizeField> fields = SizeFields(&config->sizes);
  fields.insert(fields.end(), {{"kv_heads", &config->kv_heads},
                               {"head_size", &config->head_size},
                               {"intermediate", &config->intermediate}});
  if (config->experts.experts > 0) {
    fields.insert(fields.end(),
                  {{"experts", &config->experts.experts},
                   {"chosen", &config->experts.chosen},
                   {"capacity_percent", &config->experts.capacity_percent}});
  }
  return fields;
}

std::vector<SizeField> FieldsOf(GptConfig* config) {
  std::vector<SizeField> fields = SizeFields(&config->sizes);
  fields.push_back({"positions", &config->positions});
  return fields;
}

using Sizes = std::map<std::string, int64_t>;

constexpr int64_t kMostLayers = 4096;

absl::Status SetSizes(const std::vector<SizeField>& fields,
                      const Sizes& sizes) {
  for (const auto& [name, size] : sizes) {
    std::string known;
    bool found = false;
    for (const SizeField& field : fields) {
      if (field.name == name) {
        *field.size = size;
        found = true;
      }
      known += fmt::format("{}{}", known.empty() ? "" : ", ", field.name);
    }
    if (!found) return Invalid("no size {}, it has {}", name, known);
    bool may_be_0 = name == "capacity_percent" || name == "layers";
    if (size < (may_be_0 ? 0 : 1)) {
      return Invalid("{} is {}, it should be at least {}", name, size,
                     may_be_0 ? 0 : 1);
    }
    // Each is ops of its own: these compile in minutes.
    if (name == "layers" && size > kMostLayers) {
      return Invalid("layers is {}, it should be at most {}", size,
                     kMostLayers);
    }
  }
  return absl::OkStatus();
}

double RotaryBaseOf(const LlamaConfig& config) { return config.rotary_base; }
double RotaryBaseOf(const GptConfig&) { return kUsualRotaryBase; }

struct Model {
  std::string_view name;
  double rotary_base;
  std::function<absl::StatusOr<Program>(const Sizes&)> build;
};

template <typename Config>
Model Entry(std::string_view name, Config config,
            absl::StatusOr<Program> (*build)(const Config&)) {
  return {name, RotaryBaseOf(config),
          [=](const Sizes& sizes) -> absl::StatusOr<Program> {
            Config sized = config;
            ASYRA_RETURN_IF_ERROR(SetSizes(FieldsOf(&sized), sizes));
            if (sized.sizes.hidden % sized.sizes.heads != 0) {
              return Invalid("hidden is {}, not a multiple of {} heads",
                             sized.sizes.hidden, sized.sizes.heads);
            }
            return build(sized);
          }};
}

GptConfig Gpt(int64_t layers, int64_t hidden, int64_t heads) {
  GptConfig config;
  config.sizes.layers = layers;
  config.sizes.hidden = hidden;
  config.sizes.heads = heads;
  return config;
}

constexpr DecoderSizes kTiny = {.layers = 2,
                                .hidden = 64,
                                .heads = 8,
                                .vocabulary = 256,
                                .batch = 4,
                                .seq = 64,
                                .dtype = DType::kF32};

LlamaConfig LlamaTiny() {
  return {.sizes = kTiny,
          .kv_heads = 4,
          .head_size = 8,
          .intermediate = 192,
          .rotary_base = kUsualRotaryBase};
}

LlamaConfig QwenTiny() {
  LlamaConfig config = LlamaTiny();
  config.intermediate = 96;
  config.experts = {.experts = 8, .chosen = 2};
  config.norm_heads = true;
  config.eps = 1e-6;
  return config;
}

GptConfig Gpt2() {
  GptConfig config = Gpt(12, 768, 12);
  config.sizes.batch = 4;
  config.sizes.seq = config.positions = 1024;
  return config;
}

const std::vector<Model>& Models() {
  static const auto* models = new std::vector<Model>{
      Entry("gpt2-124m", Gpt2(), BuildGpt),
      Entry("gpt3-125m", Gpt(12, 768, 12), BuildGpt),
      Entry("gpt3-6.7b", Gpt(32, 4096, 32), BuildGpt),
      Entry("gpt3-175b", Gpt(96, 12288, 96), BuildGpt),
      Entry("gpt3-tiny", GptConfig{.sizes = kTiny, .positions = 64}, BuildGpt),
      Entry("llama3-8b", Llama3Config8B(), BuildLlama),
      Entry("llama3-70b", Llama3Config70B(), BuildLlama),
      Entry("llama3-tiny", LlamaTiny(), BuildLlama),
      Entry("qwen3-30b-a3b", Qwen3Config30B(), BuildLlama),
      Entry("qwen3-moe-tiny", QwenTiny(), BuildLlama)};
  return *models;
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

absl::StatusOr<Program> BuiltinModel(
    std::string_view name, const std::map<std::string, int64_t>& sizes) {
  for (const Model& model : Models()) {
    if (model.name != name) continue;
    absl::StatusOr<Program> program = model.build(sizes);
    if (!program.ok()) {
      return Invalid("{}: {}", name, MessageOf(program.status()));
    }
    return program;
  }
  return NotFound("{}: no such file, and no built-in model (known: {})", name,
                  BuiltinModelNames());
}

}  // namespace asyra
