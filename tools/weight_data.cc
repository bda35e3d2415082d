#include "tools/weight_data.h"

#include <filesystem>
#include <memory>

#include "absl/container/flat_hash_set.h"
#include "ir/support/path.h"
#include "ir/support/short_list.h"
#include "ir/support/status.h"
#include "ir/weights/shard_reader.h"
#include "ir/weights/weight_store.h"

namespace asyra {

std::vector<std::string> WeightsWithoutData(const Program& program) {
  std::vector<std::string> names;
  for (const Input& input : program.inputs) {
    if (!IsWeight(input)) continue;
    const std::string& name = program.value_name(input.value);
    if (program.weights != nullptr && program.weights->Find(name) != nullptr) {
      continue;
    }
    names.push_back(name);
  }
  return names;
}

absl::Status AddWeightData(const NamedTensors& data, Program* program) {
  if (data.empty()) return absl::OkStatus();
  auto store = program->weights == nullptr
                   ? std::make_shared<WeightStore>()
                   : std::make_shared<WeightStore>(*program->weights);
  for (const Input& input : program->inputs) {
    if (!IsWeight(input)) continue;
    const std::string& name = program->value_name(input.value);
    for (const auto& [given, tensor] : data) {
      if (given != name || store->Find(name) != nullptr) continue;
      ASYRA_RETURN_IF_ERROR(CheckStored(*program, input, tensor));
      store->Set(name, tensor);
    }
  }
  program->weights = std::move(store);
  return absl::OkStatus();
}

NamedTensors Without(const std::vector<std::string>& names,
                     const NamedTensors& data) {
  absl::flat_hash_set<std::string_view> left_out(names.begin(), names.end());
  NamedTensors others;
  for (const auto& named : data) {
    if (!left_out.contains(named.first)) others.push_back(named);
  }
  return others;
}

absl::Status NoWeightData(const std::vector<std::string>& names,
                          const std::string& path) {
  std::string file = WeightPathFor(path);
  bool exists = IsThere(file);
  return NotFound("{}: {} the {} {}; --random-weights takes random values",
                  file,
                  exists ? "it has no data for" : "there is no such file with",
                  names.size() == 1 ? "weight" : "weights", ShortList(names));
}

std::string WeightsFromInputsLine(const std::string& model,
                                  const std::vector<std::string>& names) {
  bool onnx = std::filesystem::path(model).extension() == ".onnx";
  if (!onnx || names.empty()) return "";
  return fmt::format("weights from inputs: {} ({})\n", ShortList(names),
                     names.size());
}

}  // namespace asyra
