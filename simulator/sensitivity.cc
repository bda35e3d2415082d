#include "simulator/sensitivity.h"

#include <algorithm>
#include <cmath>

#include "ir/support/status.h"
#include "simulator/simulate.h"

namespace asyra {
namespace {

double Makespan(const Program& program, Machine machine,
                const CostOptions& options) {
  CostModel costs(std::move(machine), program.mesh, options);
  return Replay(program, PriceOps(program, costs),
                {.memory = false, .lower_bound = false, .critical_path = false})
      .makespan_us;
}

Sensitivity Try(const Program& program, const std::string& machine,
                std::vector<std::string> edits, const MachineNumber& number,
                const CostOptions& options, double step, double now_us) {
  Sensitivity result{number.key, number.value};
  edits.emplace_back();
  // Rates may not pass others (a bus its link): then less of it is tried.
  for (double factor : {1 + step, 1 / (1 + step)}) {
    edits.back() = fmt::format("{}*={}", number.key, factor);
    absl::StatusOr<Machine> changed = LoadMachine(machine, edits);
    if (!changed.ok()) {
      if (result.error.empty()) result.error = MessageOf(changed.status());
      continue;
    }
    result.error.clear();
    result.factor = factor;
    double then_us = Makespan(program, *std::move(changed), options);
    result.change_us = then_us - now_us;
    result.elasticity = std::log(then_us / now_us) / std::log(factor);
    break;
  }
  return result;
}

}  // namespace

absl::StatusOr<std::vector<Sensitivity>> Sensitivities(
    const Program& program, const std::string& machine,
    absl::Span<const std::string> edits, const CostOptions& options,
    double step) {
  std::vector<std::string> list(edits.begin(), edits.end());
  ASYRA_ASSIGN_OR_RETURN(Machine base, LoadMachine(machine, list));
  double now_us = Makespan(program, std::move(base), options);
  if (now_us <= 0) return Invalid("no op of the program takes time");
  ASYRA_ASSIGN_OR_RETURN(std::vector<MachineNumber> numbers,
                         MachineNumbers(machine, list));
  std::vector<Sensitivity> results;
  for (const MachineNumber& number : numbers) {
    if (number.value == 0) continue;  // ln(x' / x) is not defined
    Sensitivity result =
        Try(program, machine, list, number, options, step, now_us);
    if (result.change_us == 0 && result.error.empty()) continue;
    results.push_back(std::move(result));
  }
  std::stable_sort(results.begin(), results.end(),
                   [](const Sensitivity& a, const Sensitivity& b) {
                     return std::abs(a.elasticity) > std::abs(b.elasticity);
                   });
  return results;
}

std::string SensitivityReport(absl::Span<const Sensitivity> sensitivities) {
  std::string text = fmt::format(
      "sensitivity of the makespan to the machine\n  {:<48} {:>10} {:>6} "
      "{:>12} {:>6}\n",
      "number", "now", "times", "makespan us", "%/%");
  std::vector<std::string> fixed;
  for (const Sensitivity& entry : sensitivities) {
    if (!entry.error.empty()) {
      fixed.push_back(entry.key);
      continue;
    }
    text += fmt::format("  {:<48} {:>10g} {:>6.2f} {:>+12.1f} {:>+6.2f}\n",
                        entry.key, entry.value, entry.factor, entry.change_us,
                        entry.elasticity);
  }
  if (!fixed.empty()) {
    text += fmt::format("  others fix {}\n", fmt::join(fixed, ", "));
  }
  return text;
}

}  // namespace asyra
