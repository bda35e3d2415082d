#include "tools/first_params.h"

#include <algorithm>
#include <filesystem>

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

}  // namespace

absl::Status SetFirstParams(const std::string& path, const Program& step,
                            const std::vector<std::string>& lacking,
                            int64_t seed, const RunProgram& run,
                            std::vector<Tensor>* inputs) {
  std::filesystem::path file =
      std::filesystem::path(path).parent_path() / "init.asyra";
  if (lacking.empty() || !std::filesystem::exists(file)) {
    return absl::OkStatus();
  }
  CompileFlags flags;
  flags.model = file.string();
  ASYRA_ASSIGN_OR_RETURN(LoadedModel init, LoadModel(flags));
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<Tensor> values,
      run(init.program, {Tensor::FromInts(DType::kI64, {1}, {seed})}));
  for (size_t i = 0; i < init.program.outputs.size(); ++i) {
    std::string name = init.program.output_name(init.program.outputs[i]);
    if (std::find(lacking.begin(), lacking.end(), name) == lacking.end()) {
      continue;
    }
    for (size_t k = 0; k < step.inputs.size(); ++k) {
      const Input& input = step.inputs[k];
      if (input.role != InputRole::kParam ||
          step.value_name(input.value) != name) {
        continue;
      }
      (*inputs)[k] = Cut(std::move(values[i]), step.GivenShape(input));
      break;
    }
  }
  return absl::OkStatus();
}

}  // namespace asyra
