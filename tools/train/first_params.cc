#include "tools/train/first_params.h"

#include <filesystem>
#include <utility>

#include "absl/algorithm/container.h"
#include "ir/support/path.h"
#include "ir/support/status.h"
#include "tools/compile.h"

namespace asyra {
namespace {

// Without rows of padding at the ends.
Tensor Cut(Tensor whole, const Shape& shape) {
  for (int d = 0; d < whole.rank(); ++d) {
    if (whole.size(d) != shape[d]) whole = whole.Slice(d, 0, shape[d]);
  }
  return whole;
}

// The param of that name, or null.
const Input* FindParam(const Program& step, const std::string& name) {
  for (const Input& input : step.inputs) {
    if (input.role == InputRole::kParam &&
        step.value_name(input.value) == name) {
      return &input;
    }
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<FirstParams> ReadFirstParams(
    const std::string& path, const Program& step,
    const std::vector<std::string>& lacking) {
  FirstParams first;
  std::filesystem::path file =
      std::filesystem::path(path).parent_path() / "init.asyra";
  if (lacking.empty() || !IsThere(file)) return first;
  CompileFlags flags;
  flags.model = file.string();
  ASYRA_ASSIGN_OR_RETURN(LoadedModel loaded, LoadModel(flags));
  const Program& init = loaded.program;
  first.by_rank = init.mesh == step.mesh;
  for (const Output& output : init.outputs) {
    const std::string& name = init.output_name(output);
    const Input* param = FindParam(step, name);
    if (param == nullptr || !absl::c_linear_search(lacking, name)) continue;
    first.made.insert(name);
    first.by_rank &= init.type(output.value) == step.type(param->value);
  }
  if (first.made.empty()) return FirstParams();
  first.init = std::move(loaded.program);
  return first;
}

absl::Status SetFirstParams(const FirstParams& first, const Program& step,
                            int64_t seed, const RunProgram& run,
                            std::vector<Tensor>* inputs) {
  if (!first.init.has_value()) return absl::OkStatus();
  const Program& init = *first.init;
  std::vector<Tensor> values(init.outputs.size());
  if (!first.by_rank) {
    ASYRA_ASSIGN_OR_RETURN(
        values, run(init, {Tensor::FromInts(DType::kI64, {1}, {seed})}));
  }
  for (size_t i = 0; i < init.outputs.size(); ++i) {
    const std::string& name = init.output_name(init.outputs[i]);
    if (!first.made.contains(name)) continue;
    const Input* param = FindParam(step, name);
    if (!first.by_rank) {
      values[i] = Cut(std::move(values[i]), step.GivenShape(*param));
    }
    (*inputs)[param - step.inputs.data()] = std::move(values[i]);
  }
  return absl::OkStatus();
}

}  // namespace asyra
