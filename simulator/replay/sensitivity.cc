#include "simulator/replay/sensitivity.h"

#include <algorithm>
#include <cmath>

#include "ir/support/status.h"
#include "ir/support/units.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine_edit.h"
#include "simulator/replay/simulate.h"

namespace asyra {
namespace {

double StepUs(const Program& program, const CostModel& costs) {
  return Simulate(
             program, costs,
             {.memory = false, .lower_bound = false, .critical_path = false})
      .makespan_us;
}

absl::StatusOr<double> MakespanUs(const Program& program, Machine machine,
                                  const SensitivityOptions& options) {
  CostModel costs(std::move(machine), program.mesh, options.costs);
  double us = StepUs(program, costs);
  if (!options.retune) return us;
  ASYRA_ASSIGN_OR_RETURN(Program retuned, options.retune(costs));
  return std::min(us, StepUs(retuned, costs));
}

absl::StatusOr<Sensitivity> Try(const Program& program,
                                const std::string& machine,
                                std::vector<std::string> edits,
                                const MachineNumber& number,
                                const SensitivityOptions& options,
                                double now_us) {
  Sensitivity result{number.key, number.value};
  edits.emplace_back();
  // A rate may not exceed others (a bus its link): then smaller steps are
  // tried.
  for (double factor : {1 + options.step, 1 / (1 + options.step)}) {
    edits.back() = fmt::format("{}*={}", number.key, factor);
    absl::StatusOr<Machine> changed = LoadMachine(machine, edits);
    if (!changed.ok()) {
      if (result.error.empty()) result.error = MessageOf(changed.status());
      continue;
    }
    result.error.clear();
    result.factor = factor;
    ASYRA_ASSIGN_OR_RETURN(double then_us,
                           MakespanUs(program, *std::move(changed), options));
    result.change_us = then_us - now_us;
    result.elasticity = std::log(then_us / now_us) / std::log(factor);
    break;
  }
  return result;
}

// Numbers that are not 0, where ln(x' / x) is undefined, and groups, with value
// 0.
absl::StatusOr<std::vector<MachineNumber>> Changes(
    const std::string& machine, absl::Span<const std::string> edits) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<MachineNumber> changes,
                         MachineNumbers(machine, edits));
  std::erase_if(changes,
                [](const MachineNumber& number) { return number.value == 0; });
  ASYRA_ASSIGN_OR_RETURN(std::string text, MachineText(machine));
  for (std::string& group : GroupsOf(text)) {
    changes.push_back({std::move(group), 0});
  }
  return changes;
}

}  // namespace

absl::StatusOr<std::vector<Sensitivity>> Sensitivities(
    const Program& program, const std::string& machine,
    absl::Span<const std::string> edits, const SensitivityOptions& options) {
  std::vector<std::string> list(edits.begin(), edits.end());
  ASYRA_ASSIGN_OR_RETURN(Machine base, LoadMachine(machine, list));
  ASYRA_ASSIGN_OR_RETURN(double now_us,
                         MakespanUs(program, std::move(base), options));
  if (now_us <= 0) return Invalid("no op of the program takes time");
  ASYRA_ASSIGN_OR_RETURN(std::vector<MachineNumber> changes,
                         Changes(machine, list));
  std::vector<Sensitivity> results;
  for (const MachineNumber& change : changes) {
    ASYRA_ASSIGN_OR_RETURN(Sensitivity result, Try(program, machine, list,
                                                   change, options, now_us));
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
      "number", "now", "times", "makespan", "%/%");
  std::vector<std::string> fixed;
  for (const Sensitivity& entry : sensitivities) {
    if (!entry.error.empty()) {
      fixed.push_back(entry.key);
      continue;
    }
    std::string now =
        entry.value == 0 ? "group" : fmt::format("{:g}", entry.value);
    text += fmt::format("  {:<48} {:>10} {:>6.2f} {:>12} {:>+6.2f}\n",
                        entry.key, now, entry.factor,
                        TimeChangeText(entry.change_us), entry.elasticity);
  }
  if (!fixed.empty()) {
    text +=
        fmt::format("  other numbers determine {}\n", fmt::join(fixed, ", "));
  }
  return text;
}

}  // namespace asyra
