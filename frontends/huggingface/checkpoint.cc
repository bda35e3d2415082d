#include "frontends/huggingface/checkpoint.h"

#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "fmt/format.h"
#include "ir/support/file.h"
#include "ir/support/json_object.h"
#include "ir/support/path.h"
#include "ir/support/status.h"
#include "ir/weights/made_tensors.h"

namespace asyra {
namespace {

using Json = nlohmann::json;
using Store = std::shared_ptr<const WeightStore>;

constexpr std::string_view kOneFile = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";

// Files beside the index only.
absl::Status CheckFileName(std::string_view tensor, const Json& file) {
  if (!file.is_string()) return Invalid("weight_map: {} has no file", tensor);
  const auto& name = file.get_ref<const std::string&>();
  if (name.empty() || name.find('/') != std::string::npos || name[0] == '.') {
    return Invalid("weight_map: {} is in '{}', it should be a file's name",
                   tensor, name);
  }
  return absl::OkStatus();
}

absl::StatusOr<Store> ReadIndexed(const std::string& folder,
                                  const std::string& text) {
  ASYRA_ASSIGN_OR_RETURN(Json index, ParseJsonObject(text));
  auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) {
    return Invalid("it has no weight_map");
  }
  std::map<std::string, Store> files;
  auto all = std::make_shared<WeightStore>();
  for (const auto& [tensor, file] : map->items()) {
    ASYRA_RETURN_IF_ERROR(CheckFileName(tensor, file));
    const auto& name = file.get_ref<const std::string&>();
    Store& store = files[name];
    if (store == nullptr) {
      ASYRA_ASSIGN_OR_RETURN(store,
                             ReadWeights(fmt::format("{}/{}", folder, name)));
    }
    const Tensor* data = store->Find(tensor);
    if (data == nullptr) {
      return Invalid("{} should be in {}, which has no such tensor", tensor,
                     name);
    }
    all->Set(tensor, *data);
  }
  return all;
}

// The name under which the file has a tensor; empty: it has none.
std::string InFile(const FamilyModel& model, std::string_view name,
                   const WeightStore& file) {
  if (file.Find(name) != nullptr) return std::string(name);
  std::string_view rest = name;
  bool of_model = name.starts_with(model.prefix);
  if (of_model) rest.remove_prefix(model.prefix.size());
  for (const std::string& prefix : model.prefixes) {
    std::string other = fmt::format("{}{}", prefix, rest);
    if (of_model && file.Find(other) != nullptr) return other;
  }
  std::string other = fmt::format("language_model.{}", name);
  return file.Find(other) != nullptr ? other : "";
}

absl::StatusOr<Tensor> WeightOf(const FamilyModel& model, std::string_view name,
                                const Type& type, const WeightStore& file) {
  ASYRA_ASSIGN_OR_RETURN(StoredTensors stored, TensorsIn(file, model, name));
  Shape shape = type.shape();
  if (stored.apart) shape.erase(shape.begin());
  std::vector<Tensor> parts;
  for (const std::string& part : stored.names) {
    const Tensor& data = *file.Find(part);
    if (data.shape() != shape || !IsFloat(data.dtype())) {
      return Invalid("{} is {}{}, the model takes floats of {}", part,
                     ToString(data.dtype()), ShapeToString(data.shape()),
                     ShapeToString(shape));
    }
    parts.push_back(RoundedTensor(data, type.dtype));
  }
  return stored.apart ? StackedTensor(parts) : parts[0];
}

}  // namespace

std::string OfExpert(const FamilyModel& model, std::string_view weight,
                     int64_t expert) {
  std::string experts = model.decoder.names.experts + ".";
  size_t at = weight.find(experts);
  if (at == std::string_view::npos) return "";
  size_t behind = at + experts.size();
  return fmt::format("{}{}.{}", weight.substr(0, behind), expert,
                     weight.substr(behind));
}

bool IsRopeTable(const FamilyModel& model, std::string_view weight) {
  return absl::c_any_of(model.decoder.rotary, [&](const RotaryForm& form) {
    return weight == form.name + ".cos.weight" ||
           weight == form.name + ".sin.weight";
  });
}

StoredTensors FamilyTensors(const FamilyModel& model, std::string_view weight) {
  if (OfExpert(model, weight, 0).empty()) return {{std::string(weight)}};
  StoredTensors stored = {.apart = true};
  for (int64_t i = 0; i < model.decoder.experts.experts; ++i) {
    stored.names.push_back(OfExpert(model, weight, i));
  }
  return stored;
}

absl::StatusOr<StoredTensors> TensorsIn(const WeightStore& file,
                                        const FamilyModel& model,
                                        std::string_view weight) {
  std::string whole = InFile(model, weight, file);
  if (!whole.empty()) return StoredTensors{{std::move(whole)}};
  StoredTensors stored = FamilyTensors(model, weight);
  for (std::string& name : stored.names) {
    std::string found = InFile(model, name, file);
    if (found.empty()) return NotFound("there is no tensor {}", name);
    name = std::move(found);
  }
  return stored;
}

absl::StatusOr<Store> ReadCheckpoint(const std::string& folder) {
  std::string index = fmt::format("{}/{}", folder, kIndex);
  if (IsThere(index)) {
    ASYRA_ASSIGN_OR_RETURN(std::string text, ReadFile(index));
    absl::StatusOr<Store> store = ReadIndexed(folder, text);
    if (!store.ok()) return Annotate(store.status(), index);
    return store;
  }
  std::string one = fmt::format("{}/{}", folder, kOneFile);
  if (!IsThere(one)) return Store();
  return ReadWeights(one);
}

absl::Status SetWeights(const FamilyModel& model, const WeightStore& file,
                        Program* program) {
  auto store = program->weights == nullptr
                   ? std::make_shared<WeightStore>()
                   : std::make_shared<WeightStore>(*program->weights);
  for (const Input& input : program->inputs) {
    const std::string& name = program->value_name(input.value);
    if (!IsWeight(input) || IsRopeTable(model, name)) continue;
    ASYRA_ASSIGN_OR_RETURN(
        Tensor data, WeightOf(model, name, program->type(input.value), file));
    store->Set(name, std::move(data));
  }
  program->weights = std::move(store);
  return absl::OkStatus();
}

}  // namespace asyra
