#include "executor/train/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "executor/train/checkpoint_layout.h"
#include "executor/train/part_checksum.h"
#include "ir/support/file.h"
#include "ir/support/json_object.h"
#include "ir/support/status.h"
#include "ir/training_names.h"
#include "ir/weights/shard_reader.h"
#include "nlohmann/json.hpp"

namespace asyra {
namespace {

using nlohmann::json;

std::string PathIn(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

// The param that a state is named after and shares the shape of, or null.
const Input* ParamOf(const Program& program, const Input& state) {
  std::string_view name = program.value_name(state.value);
  for (const Input& input : program.inputs) {
    if (input.role != InputRole::kParam) continue;
    const std::string& param = program.value_name(input.value);
    if (name.size() > param.size() && name.starts_with(param) &&
        name[param.size()] == '.' &&
        program.type(input.value).shape() ==
            program.type(state.value).shape()) {
      return &input;
    }
  }
  return nullptr;
}

absl::Status CheckSize(const std::string& path, int64_t bytes) {
  std::error_code error;
  auto size = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) return NotFound("{}: {}", path, error.message());
  if (size == bytes) return absl::OkStatus();
  return Invalid("{}: it has {} bytes, the checkpoint was written with {}",
                 path, size, bytes);
}

// Reads the index in `path`: the file of each tensor.
absl::StatusOr<std::map<std::string, std::string>> ReadIndex(
    const std::string& path) {
  ASYRA_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  absl::StatusOr<json> index = ParseJsonObject(text);
  if (!index.ok()) return Annotate(index.status(), path);
  std::map<std::string, std::string> files;
  auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object()) {
    return Invalid("{}: it has no \"weight_map\"", path);
  }
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) return Invalid("{}: no file of {}", path, name);
    files[name] = file.get<std::string>();
  }
  return files;
}

std::string TypeText(DType dtype, const Shape& shape) {
  return fmt::format("{}{}", ToString(dtype), ShapeToString(shape));
}

}  // namespace

const std::string& CheckpointValue::tensor() const {
  return origin == nullptr ? name : origin->tensor;
}

Shape CheckpointValue::tensor_shape() const {
  return origin == nullptr ? stored : origin->shape;
}

Type CheckpointValue::written_type() const {
  Type written = type;
  if (turned) std::swap(written.dims[0], written.dims[1]);
  return written;
}

Shape CheckpointValue::written_shape() const {
  Shape written = stored;
  if (turned) std::swap(written[0], written[1]);
  return written;
}

namespace {

// The origin of a param as files have it; null: it is stored as it is.
std::shared_ptr<const WeightOrigin> OriginInFiles(const Program& program,
                                                  const Input& param,
                                                  bool* turned) {
  if (param.origin == nullptr) return nullptr;
  WeightOrigin origin = *param.origin;
  if (origin.transposed) {
    std::optional<WeightOrigin> known = Transposed(origin);
    // A part that is no rows of what users know.
    if (!known.has_value() || program.type(param.value).rank() != 2) {
      return nullptr;
    }
    origin = *std::move(known);
    *turned = true;
  }
  return std::make_shared<WeightOrigin>(std::move(origin));
}

// Drops origins of tensors of which some part is not among the values, or that
// two values claim.
void KeepWholeTensors(std::vector<CheckpointValue>* values) {
  std::map<std::string, int64_t> elements;
  std::set<std::string> names;
  for (const CheckpointValue& value : *values) {
    names.insert(value.name);
    if (value.origin == nullptr) continue;
    elements[value.tensor()] += NumElements(value.stored);
  }
  for (CheckpointValue& value : *values) {
    if (value.origin == nullptr) continue;
    bool whole = elements[value.tensor()] == NumElements(value.tensor_shape());
    bool taken = value.tensor() != value.name && names.contains(value.tensor());
    if (whole && !taken) continue;
    value.origin = nullptr;
    value.turned = false;
  }
}

}  // namespace

std::vector<CheckpointValue> CheckpointValuesOf(const Program& program) {
  std::vector<CheckpointValue> values;
  for (const Input& input : program.inputs) {
    if (!IsUpdated(input) || IsAccumulated(program.value_name(input.value))) {
      continue;
    }
    bool is_param = input.role == InputRole::kParam;
    const Input* shape = is_param ? &input : ParamOf(program, input);
    const Type& type = program.type(input.value);
    const std::string& name = program.value_name(input.value);
    CheckpointValue value = {
        name, type,
        shape == nullptr ? type.shape() : program.GivenShape(*shape), is_param};
    if (shape != nullptr) {
      value.origin = OriginInFiles(program, *shape, &value.turned);
    }
    if (value.origin != nullptr && !is_param) {
      auto origin = std::make_shared<WeightOrigin>(*value.origin);
      origin->tensor += name.substr(program.value_name(shape->value).size());
      value.origin = std::move(origin);
    }
    values.push_back(std::move(value));
  }
  KeepWholeTensors(&values);
  return values;
}

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& folder) {
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  std::string path = PathIn(folder, kCheckpointJson);
  ASYRA_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  absl::StatusOr<CheckpointContents> contents = ParseCheckpointJson(text);
  if (!contents.ok()) return Annotate(contents.status(), path);
  checkpoint.info_ = contents->info;
  checkpoint.checksums_ = std::move(contents->checksums);
  std::map<std::string, std::shared_ptr<const WeightStore>> stores;
  for (const CheckpointContents::File& file : contents->files) {
    std::string at = PathIn(folder, file.name);
    ASYRA_RETURN_IF_ERROR(CheckSize(at, file.bytes));
    if (!file.name.ends_with(".safetensors")) continue;
    ASYRA_ASSIGN_OR_RETURN(stores[file.name], ReadWeights(at));
  }
  for (const CheckpointContents::File& file : contents->files) {
    if (file.name.ends_with(".safetensors")) continue;
    std::string index = PathIn(folder, file.name);
    ASYRA_ASSIGN_OR_RETURN(auto files, ReadIndex(index));
    for (const auto& [name, in] : files) {
      auto store = stores.find(in);
      const Tensor* tensor =
          store == stores.end() ? nullptr : store->second->Find(name);
      if (tensor == nullptr) {
        return Invalid("{}: it has no tensor {}, which {} has in it",
                       PathIn(folder, in), name, index);
      }
      checkpoint.tensors_.Set(name, *tensor);
      checkpoint.files_[name] = PathIn(folder, in);
    }
  }
  return checkpoint;
}

// Returns whether the value is stored as older writers have it.
bool Checkpoint::IsUnderOwnName(const CheckpointValue& value) const {
  return tensors_.Find(value.tensor()) == nullptr &&
         tensors_.Find(value.name) != nullptr;
}

absl::Status Checkpoint::CheckFits(absl::Span<const CheckpointValue> values,
                                   std::string_view program_hash) const {
  std::set<std::string_view> names;
  for (const CheckpointValue& value : values) {
    bool own = IsUnderOwnName(value);
    const std::string& name = own ? value.name : value.tensor();
    Shape shape = own ? value.stored : value.tensor_shape();
    names.insert(name);
    const Tensor* tensor = tensors_.Find(name);
    if (tensor == nullptr) {
      return Invalid("{}: it has no {}, which the program has as {}", folder_,
                     name, TypeText(value.type.dtype, shape));
    }
    if (tensor->dtype() != value.type.dtype || tensor->shape() != shape) {
      return Invalid("{}: {} is {} in it, the program has {}", folder_, name,
                     TypeText(tensor->dtype(), tensor->shape()),
                     TypeText(value.type.dtype, shape));
    }
  }
  for (const auto& [name, tensor] : tensors_) {
    if (names.contains(name)) continue;
    return Invalid("{}: it has {} as {}, which the program does not have",
                   folder_, name, TypeText(tensor.dtype(), tensor.shape()));
  }
  if (program_hash.empty() || info_.program_hash.empty() ||
      program_hash == info_.program_hash) {
    return absl::OkStatus();
  }
  return Invalid("{}: it is of the program {}, this one is {}", folder_,
                 info_.program_hash, program_hash);
}

absl::Status Checkpoint::CheckData(int64_t rank, int64_t ranks) const {
  if (!checksums_.has_value()) return absl::OkStatus();
  // The largest first, each to the rank that has least.
  std::vector<std::pair<int64_t, std::string_view>> by_size;
  for (const auto& [name, tensor] : tensors_) {
    by_size.emplace_back(-tensor.bytes(), name);
  }
  std::sort(by_size.begin(), by_size.end());
  std::vector<int64_t> bytes_of(ranks);
  for (const auto& [size, name] : by_size) {
    auto least = std::min_element(bytes_of.begin(), bytes_of.end());
    *least -= size;
    if (least - bytes_of.begin() != rank) continue;
    ASYRA_RETURN_IF_ERROR(CheckTensor(std::string(name)));
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::CheckTensor(const std::string& name) const {
  const std::string& file = files_.at(name);
  auto written = checksums_->find(name);
  if (written == checksums_->end()) {
    return Invalid("{}: {} has no checksum of its tensor {}", file,
                   PathIn(folder_, kCheckpointJson), name);
  }
  const Tensor& tensor = *tensors_.Find(name);
  uint32_t found = ChecksumOf({reinterpret_cast<const char*>(tensor.data()),
                               static_cast<size_t>(tensor.bytes())});
  if (found == written->second) return absl::OkStatus();
  return Invalid(
      "{}: the data of tensor {} has changed: its checksum is {:08x}, it was "
      "written with {:08x}",
      file, name, found, written->second);
}

absl::StatusOr<Tensor> Checkpoint::Read(const CheckpointValue& value,
                                        const Mesh& mesh,
                                        int64_t device) const {
  bool own = IsUnderOwnName(value) || value.origin == nullptr;
  const Tensor* tensor = tensors_.Find(own ? value.name : value.tensor());
  if (tensor == nullptr) return Invalid("{}: no {}", folder_, value.tensor());
  absl::StatusOr<Tensor> part =
      own ? ReadShard(*tensor, value.type, mesh, device)
          : ReadShard(TakePart(*value.origin, *tensor, value.written_shape()),
                      value.written_type(), mesh, device);
  if (!part.ok()) return Annotate(part.status(), value.tensor());
  return !own && value.turned ? TransposedMatrix(*part) : part;
}

absl::StatusOr<std::vector<std::string>> ListCheckpoints(
    const std::string& directory) {
  std::error_code error;
  std::filesystem::directory_iterator entries(directory, error);
  if (error == std::errc::no_such_file_or_directory) {
    return std::vector<std::string>();
  }
  std::map<int64_t, std::string> by_step;
  for (; !error && entries != std::filesystem::directory_iterator();
       entries.increment(error)) {
    std::string name = entries->path().filename().string();
    std::string digits = name.substr(
        std::min(name.size(), std::string_view(kCheckpointPrefix).size()));
    int64_t step = std::strtoll(digits.c_str(), nullptr, 10);
    if (name == CheckpointName(step)) by_step[step] = entries->path().string();
  }
  if (error) return Invalid("{}: {}", directory, error.message());
  std::vector<std::string> folders;
  for (const auto& [step, folder] : by_step) folders.push_back(folder);
  return folders;
}

absl::StatusOr<std::string> NewestCheckpoint(const std::string& directory,
                                             Communicator* world) {
  // '+' and the folder, or '-' and the error.
  std::string mine;
  if (world == nullptr || world->rank() == 0) {
    absl::StatusOr<std::vector<std::string>> all = ListCheckpoints(directory);
    if (!all.ok()) {
      mine = "-" + std::string(MessageOf(all.status()));
    } else {
      mine = "+" + (all->empty() ? "" : all->back());
    }
  }
  if (world != nullptr) {
    ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> said,
                           world->Exchange(mine));
    mine = said[0];
  }
  if (mine.starts_with('-')) return Invalid("{}", mine.substr(1));
  return mine.substr(1);
}

}  // namespace asyra
