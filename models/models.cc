#include "models/models.h"

#include "fmt/format.h"
#include "ir/support/status.h"
#include "models/llama.h"

namespace asyra {
namespace {

struct Model {
  std::string_view name;
  LlamaConfig config;
};

const Model kModels[] = {
    {"llama3-8b", {}},
    {"llama3-70b",
     {.layers = 80, .hidden = 8192, .intermediate = 28672, .heads = 64}},
    {"llama3-tiny",
     {.layers = 2,
      .hidden = 64,
      .intermediate = 192,
      .heads = 8,
      .kv_heads = 4,
      .vocabulary = 256,
      .dtype = DType::kF32,
      .batch = 4,
      .seq = 64}},
};

}  // namespace

std::string BuiltinModelNames() {
  std::string names;
  for (const Model& model : kModels) {
    if (!names.empty()) names += ", ";
    names += model.name;
  }
  return names;
}

absl::StatusOr<Program> BuiltinModel(
    std::string_view name, const std::map<std::string, int64_t>& dims) {
  for (const Model& model : kModels) {
    if (model.name != name) continue;
    LlamaConfig config = model.config;
    for (const auto& [dim, size] : dims) {
      if (dim == "batch") {
        config.batch = size;
      } else if (dim == "seq") {
        config.seq = size;
      } else {
        return Invalid("{}: no dimension {}, it has batch and seq", name, dim);
      }
    }
    return BuildLlama(config);
  }
  return NotFound("{}: no such file, and no built-in model (known: {})", name,
                  BuiltinModelNames());
}

}  // namespace asyra
