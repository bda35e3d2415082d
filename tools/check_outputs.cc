#include "tools/check_outputs.h"

#include "ir/support/status.h"

namespace asyra {

absl::StatusOr<CheckedOutputs> CheckOutputs(const Program& program,
                                            const std::vector<Tensor>& outputs,
                                            const NamedTensors& recorded,
                                            std::optional<double> rtol,
                                            std::optional<double> atol) {
  if (outputs.size() != recorded.size()) {
    return Invalid("{} outputs are recorded, the program has {}",
                   recorded.size(), outputs.size());
  }
  CheckedOutputs checked;
  int64_t wrong = 0;
  Tolerance missed;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = program.value_name(program.outputs[i].value);
    const Tensor& output = outputs[i];
    Tolerance tolerance = ToleranceFor(output.dtype());
    tolerance.relative = rtol.value_or(tolerance.relative);
    tolerance.absolute = atol.value_or(tolerance.absolute);
    absl::StatusOr<Comparison> comparison =
        Compare(output, recorded[i].second, tolerance);
    if (!comparison.ok()) {
      return Annotate(comparison.status(), fmt::format("output %{}", name));
    }
    CheckedOutput result{name, output.dtype(), output.shape(), *comparison, ""};
    if (comparison->wrong > 0) {
      int64_t first = comparison->first_wrong;
      result.first_difference = fmt::format(
          "{} of {} elements differ, first element {}: {} is {}, recorded is "
          "{}",
          comparison->wrong, output.num_elements(), first, name,
          output.Get(first), recorded[i].second.Get(first));
      wrong += comparison->wrong;
      missed = tolerance;
    }
    checked.outputs.push_back(std::move(result));
  }
  if (wrong > 0) {
    checked.verdict = Invalid("{} elements are beyond rtol {:g} and atol {:g}",
                              wrong, missed.relative, missed.absolute);
  }
  return checked;
}

}  // namespace asyra
