#include "frontends/huggingface/export.h"

#include <filesystem>
#include <utility>

#include "frontends/huggingface/checkpoint.h"
#include "frontends/huggingface/families.h"
#include "frontends/huggingface/read_model.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/weights/made_tensors.h"

namespace asyra {
namespace {

absl::Status CheckShape(const std::string& name, const Tensor& tensor,
                        const Shape& shape) {
  if (tensor.shape() == shape && IsFloat(tensor.dtype())) {
    return absl::OkStatus();
  }
  return Invalid("{} is {}{}, the model takes floats of {}", name,
                 ToString(tensor.dtype()), ShapeToString(tensor.shape()),
                 ShapeToString(shape));
}

// Puts a weight of the program under its names in files.
void Put(const FamilyModel& model, const std::string& name,
         const Tensor& tensor, const WeightStore& own, WeightStore* to) {
  absl::StatusOr<StoredTensors> stored = TensorsIn(own, model, name);
  if (!stored.ok()) stored = FamilyTensors(model, name);
  for (size_t i = 0; i < stored->names.size(); ++i) {
    Tensor part = tensor;
    if (stored->apart) {
      Shape shape(tensor.shape().begin() + 1, tensor.shape().end());
      part = tensor.Slice(0, static_cast<int64_t>(i), 1).Reshaped(shape);
    }
    const Tensor* before = own.Find(stored->names[i]);
    DType dtype =
        before == nullptr ? model.decoder.sizes.dtype : before->dtype();
    to->Set(stored->names[i], RoundedTensor(part, dtype));
  }
}

absl::StatusOr<WeightStore> FileOf(const HuggingFaceModel& model,
                                   const WeightStore& tensors) {
  WeightStore none;
  const WeightStore& own = model.file == nullptr ? none : *model.file;
  WeightStore to = own;
  for (const Input& input : model.program.inputs) {
    const std::string& name = model.program.value_name(input.value);
    if (!IsWeight(input) || IsRopeTable(model.family, name)) continue;
    const Tensor* tensor = tensors.Find(name);
    if (tensor == nullptr) {
      if (TensorsIn(own, model.family, name).ok()) continue;
      return NotFound("there is no value for {}", name);
    }
    ASYRA_RETURN_IF_ERROR(
        CheckShape(name, *tensor, model.program.type(input.value).shape()));
    Put(model.family, name, *tensor, own, &to);
  }
  return to;
}

}  // namespace

absl::Status ExportHuggingFace(const std::string& path,
                               const WeightStore& tensors,
                               const std::string& to) {
  // Sizes of batches do not matter.
  ASYRA_ASSIGN_OR_RETURN(HuggingFaceModel model, ReadHuggingFace(path, {}));
  absl::StatusOr<WeightStore> file = FileOf(model, tensors);
  if (!file.ok()) return Annotate(file.status(), path);
  ASYRA_ASSIGN_OR_RETURN(std::string config, ReadFile(path));
  std::error_code error;
  std::filesystem::create_directories(to, error);
  if (error) return Invalid("{}: {}", to, error.message());
  ASYRA_RETURN_IF_ERROR(
      WriteWeights(*file, fmt::format("{}/model.safetensors", to)));
  return WriteTextFile(fmt::format("{}/config.json", to), config);
}

}  // namespace asyra
