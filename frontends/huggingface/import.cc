#include "frontends/huggingface/import.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "frontends/huggingface/checkpoint.h"
#include "frontends/huggingface/families.h"
#include "frontends/huggingface/read_model.h"
#include "frontends/huggingface/rope.h"
#include "ir/support/file.h"
#include "ir/support/json_object.h"
#include "ir/support/path.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// The element type of a file's weights, where config.json says none.
void TakeDType(const WeightStore& file, FamilyModel* model) {
  std::string name = model->decoder.names.embedding + ".weight";
  absl::StatusOr<StoredTensors> stored = TensorsIn(file, *model, name);
  if (model->says_dtype || !stored.ok()) return;
  DType dtype = file.Find(stored->names[0])->dtype();
  if (IsFloat(dtype)) model->decoder.sizes.dtype = dtype;
}

void SetTables(const DecoderConfig& config, Program* program) {
  auto store = std::make_shared<WeightStore>();
  for (const RotaryForm& form : config.rotary) {
    for (bool cosine : {true, false}) {
      store->Set(fmt::format("{}.{}.weight", form.name, cosine ? "cos" : "sin"),
                 RopeTable(form, config.sizes.dtype, config.sizes.seq, cosine));
    }
  }
  if (store->size() > 0) program->weights = std::move(store);
}

std::string FolderOf(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

}  // namespace

std::string HuggingFaceConfig(const std::string& path) {
  std::filesystem::path file = path;
  if (file.extension() == ".json") return path;
  std::error_code error;
  if (!std::filesystem::is_directory(file, error)) return "";
  file /= "config.json";
  return IsThere(file) ? file.string() : "";
}

absl::StatusOr<HuggingFaceModel> ReadHuggingFace(
    const std::string& path, const std::map<std::string, int64_t>& sizes) {
  ASYRA_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  absl::StatusOr<nlohmann::json> config = ParseJsonObject(text);
  if (!config.ok()) return Annotate(config.status(), path);
  absl::StatusOr<FamilyModel> family = ReadFamily(*config, sizes);
  if (!family.ok()) return Annotate(family.status(), path);
  HuggingFaceModel model = {.family = *std::move(family)};
  ASYRA_ASSIGN_OR_RETURN(model.file, ReadCheckpoint(FolderOf(path)));
  if (model.file != nullptr) TakeDType(*model.file, &model.family);
  absl::StatusOr<Program> program = BuildDecoder(model.family.decoder);
  if (!program.ok()) return Annotate(program.status(), path);
  model.program = *std::move(program);
  SetTables(model.family.decoder, &model.program);
  return model;
}

absl::StatusOr<Program> ImportHuggingFace(
    const std::string& path, const std::map<std::string, int64_t>& sizes) {
  ASYRA_ASSIGN_OR_RETURN(HuggingFaceModel model, ReadHuggingFace(path, sizes));
  if (model.file == nullptr) return std::move(model.program);
  ASYRA_RETURN_IF_ERROR(Annotate(
      SetWeights(model.family, *model.file, &model.program), FolderOf(path)));
  return std::move(model.program);
}

}  // namespace asyra
