#include "tools/run/check_outputs.h"

#include <set>

#include "absl/algorithm/container.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// "rtol 0.001, atol 1e-05; integers equal" of the outputs that count.
std::string TolerancesOf(const std::vector<CheckedOutput>& outputs,
                         bool only_wrong) {
  std::set<std::string> tolerances;
  bool integers = false;
  for (const CheckedOutput& output : outputs) {
    if (only_wrong && output.comparison.wrong == 0) continue;
    integers |= !IsFloat(output.dtype);
    if (!IsFloat(output.dtype)) continue;
    tolerances.insert(fmt::format("rtol {:g}, atol {:g}",
                                  output.tolerance.relative,
                                  output.tolerance.absolute));
  }
  std::string text = fmt::format("{}", fmt::join(tolerances, " or "));
  if (!integers) return text;
  return text.empty() ? "equality" : text + "; integers equal";
}

std::string Count(size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// Finds which recorded tensor belongs to each output.
absl::StatusOr<std::vector<size_t>> Match(const Program& program,
                                          const NamedTensors& recorded) {
  size_t count = program.outputs.size();
  if (count != recorded.size()) {
    return Invalid("{} {} recorded, the program has {}",
                   Count(recorded.size(), "output"),
                   recorded.size() == 1 ? "is" : "are", count);
  }
  std::vector<size_t> match(count);
  size_t named = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = program.output_name(program.outputs[i]);
    auto found = absl::c_find_if(
        recorded, [&](const auto& one) { return one.first == name; });
    match[i] = found - recorded.begin();
    named += found != recorded.end();
  }
  for (size_t i = 0; i < count; ++i) {
    if (named == 0) match[i] = i;
    if (match[i] < count) continue;
    return Invalid("output %{} is not recorded, others are by name",
                   program.output_name(program.outputs[i]));
  }
  return match;
}

// "%y[0, 3]", of element `at` in row-major order.
std::string ElementName(const std::string& name, absl::Span<const int64_t> dims,
                        int64_t at) {
  std::vector<int64_t> index(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    index[d] = at % dims[d];
    at /= dims[d];
  }
  return fmt::format("%{}[{}]", name, fmt::join(index, ", "));
}

absl::StatusOr<CheckedOutput> CheckOne(const std::string& name,
                                       const Tensor& output,
                                       const Tensor& recorded,
                                       const Tolerance& tolerance) {
  absl::StatusOr<Comparison> comparison = Compare(output, recorded, tolerance);
  if (!comparison.ok()) {
    return Annotate(comparison.status(), fmt::format("output %{}", name));
  }
  CheckedOutput result{name,      output.dtype(), output.shape(),
                       tolerance, *comparison,    ""};
  if (comparison->wrong > 0) {
    int64_t first = comparison->first_wrong;
    result.first_difference =
        fmt::format("{} of {} {}, first {}: it is {}, recorded is {}",
                    comparison->wrong, Count(output.num_elements(), "element"),
                    comparison->wrong == 1 ? "differs" : "differ",
                    ElementName(name, output.shape(), first), output.Get(first),
                    recorded.Get(first));
  }
  return result;
}

}  // namespace

absl::StatusOr<CheckedOutputs> CheckOutputs(const Program& program,
                                            const std::vector<Tensor>& outputs,
                                            const NamedTensors& recorded,
                                            std::optional<double> rtol,
                                            std::optional<double> atol) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<size_t> match, Match(program, recorded));
  CheckedOutputs checked;
  int64_t wrong = 0, wrong_outputs = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tolerance tolerance = ToleranceFor(outputs[i].dtype());
    tolerance.relative = rtol.value_or(tolerance.relative);
    tolerance.absolute = atol.value_or(tolerance.absolute);
    ASYRA_ASSIGN_OR_RETURN(
        CheckedOutput output,
        CheckOne(program.output_name(program.outputs[i]), outputs[i],
                 recorded[match[i]].second, tolerance));
    wrong += output.comparison.wrong;
    wrong_outputs += output.comparison.wrong > 0;
    checked.outputs.push_back(std::move(output));
  }
  if (wrong > 0) {
    checked.verdict =
        Invalid("{} of {} of {} {} beyond {}", Count(wrong, "element"),
                wrong_outputs, Count(outputs.size(), "output"),
                wrong == 1 ? "is" : "are", TolerancesOf(checked.outputs, true));
  }
  return checked;
}

std::string VerdictText(const CheckedOutputs& checked) {
  if (!checked.passed()) {
    return fmt::format("check failed: {}\n", MessageOf(checked.verdict));
  }
  return fmt::format("check passed: {} within {}\n",
                     Count(checked.outputs.size(), "output"),
                     TolerancesOf(checked.outputs, false));
}

}  // namespace asyra
