#include "tools/train_data.h"

#include "ir/support/status.h"
#include "passes/train/attach_loss.h"
#include "passes/train/attach_updates.h"

namespace asyra {
namespace {

absl::Status CheckTokens(const TokenFile& file, const Program& step,
                         ValueId tokens, const std::string& path) {
  int64_t rows = TokenLimit(step, tokens);
  if (file.largest() < rows) return absl::OkStatus();
  return Invalid("{}: it has the token {}, the model has {} of them", path,
                 file.largest(), rows);
}

// The label of a token is the next one: logits for each of them, of as many
// classes as there are tokens. A model that ends in a loss has no labels here.
absl::Status CheckLabels(const TokenFile& file, const Program& step,
                         const Shape& tokens, const std::string& path) {
  for (const Input& input : step.inputs) {
    if (step.value_name(input.value) != kLabels) continue;
    const Type& labels = step.type(input.value);
    if (labels.dtype != DType::kI64 || labels.shape() != tokens) {
      return Invalid(
          "the model's labels are {}{}, those of tokens {} are i64{}: its "
          "output is not logits for each token",
          ToString(labels.dtype), ShapeToString(labels.shape()),
          ShapeToString(tokens), ShapeToString(tokens));
    }
    int64_t classes = ClassLimit(step);
    if (file.largest() < classes) return absl::OkStatus();
    return Invalid("{}: it has the token {}, the model's output has {} classes",
                   path, file.largest(), classes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const Input*> TokensOf(const Program& step) {
  const Input* tokens = nullptr;
  for (const Input& input : step.inputs) {
    if (input.role != InputRole::kData) continue;
    const std::string& name = step.value_name(input.value);
    const Type& type = step.type(input.value);
    bool other =
        name == kLabels || name == "attention_mask" || name == "position_ids";
    if (other || type.dtype != DType::kI64 || type.rank() != 2) continue;
    if (tokens != nullptr) {
      return Invalid("both %{} and %{} may be the tokens",
                     step.value_name(tokens->value), name);
    }
    tokens = &input;
  }
  if (tokens != nullptr) return tokens;
  return Invalid(
      "no data input is i64 [rows, length]: the model takes no "
      "tokens");
}

absl::Status AddOthers(const Program& step, TrainData* data) {
  for (const Input& input : step.inputs) {
    if (input.role != InputRole::kData) continue;
    const std::string& name = step.value_name(input.value);
    const Type& type = step.type(input.value);
    bool given = name == kRate;
    for (const auto& one : *data) given |= one.first == name;
    if (given) continue;
    std::vector<double> numbers(type.num_elements(), 1);
    int64_t length = type.rank() > 0 ? type.dims.back().size : 1;
    if (name == "position_ids") {
      for (size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = static_cast<double>(static_cast<int64_t>(i) % length);
      }
    } else if (name != "attention_mask") {
      return Invalid(
          "%{} is neither tokens nor labels: the data has nothing "
          "for it",
          name);
    }
    data->emplace_back(name,
                       Tensor::FromDoubles(type.dtype, type.shape(), numbers));
  }
  return absl::OkStatus();
}

absl::Status CheckData(const TokenFile& file, const Program& step,
                       const Input& tokens, const std::string& path) {
  ASYRA_RETURN_IF_ERROR(CheckTokens(file, step, tokens.value, path));
  return CheckLabels(file, step, step.type(tokens.value).shape(), path);
}

}  // namespace asyra
