#include "executor/executor.h"

#include <algorithm>

#include "executor/rank_executor.h"
#include "ir/program_file.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"

namespace asyra {
namespace {

// Returns the position of `name`. Error: it is absent; the others are listed.
absl::StatusOr<size_t> IndexOf(std::string_view what, std::string_view name,
                               absl::Span<const std::string_view> names) {
  auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return found - names.begin();
  return NotFound("no {} is called '{}'; there are: {}", what, name,
                  fmt::join(names, ", "));
}

}  // namespace

std::vector<std::string_view> Executor::outputs() const {
  std::vector<std::string_view> names;
  for (const asyra::Output& output : program().outputs) {
    names.push_back(program().output_name(output));
  }
  return names;
}

absl::Status Executor::StepByName(absl::Span<const NamedTensor> inputs) {
  std::vector<std::string_view> names;
  for (const NamedInput& input : this->inputs()) names.push_back(input.name);
  std::vector<Tensor> ordered(names.size());
  std::vector<bool> given(names.size(), false);
  for (const auto& [name, tensor] : inputs) {
    ASYRA_ASSIGN_OR_RETURN(size_t index, IndexOf("input", name, names));
    if (given[index]) return Invalid("input %{} is given twice", name);
    given[index] = true;
    ordered[index] = tensor;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (!given[i]) return Invalid("input %{} is not given", names[i]);
  }
  return Step(ordered);
}

absl::StatusOr<Tensor> Executor::Output(std::string_view name) {
  ASYRA_ASSIGN_OR_RETURN(size_t index, IndexOf("output", name, outputs()));
  return Output(index);
}

absl::StatusOr<std::unique_ptr<Executor>> Executor::Load(Program program) {
  ASYRA_RETURN_IF_ERROR(Verify(program));
  return std::make_unique<RankExecutor>(std::move(program));
}

absl::StatusOr<std::unique_ptr<Executor>> Executor::LoadFile(
    const std::string& path) {
  ASYRA_ASSIGN_OR_RETURN(Program program, ReadProgramFile(path));
  return std::make_unique<RankExecutor>(std::move(program));
}

}  // namespace asyra
