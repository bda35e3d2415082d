#include "passes/search/neighbours.h"

#include <algorithm>
#include <utility>

#include "ir/support/status.h"
#include "simulator/replay/memory.h"
#include "simulator/replay/simulate.h"

namespace asyra {
namespace {

// Returns whether it takes more memory than the device has, and more than the
// program it would replace.
bool TakesTooMuch(const Program& program, const SimResult& simulated,
                  const Program& own, const SimResult& own_simulated,
                  const Machine& machine, int64_t capacity_bytes) {
  int64_t bytes = ReportMemory(program, simulated, machine).device_bytes;
  if (capacity_bytes == 0 || bytes <= capacity_bytes) return false;
  return bytes > ReportMemory(own, own_simulated, machine).device_bytes;
}

}  // namespace

ReplayRules RulesOf(const CompileOptions& options, const Machine& machine) {
  return {.costs = options.costs,
          .measured_only = options.measured_only,
          .capacity_bytes = CapacityOf(options.schedule, machine)};
}

absl::StatusOr<Replayed> ReplayOn(const Machine& machine,
                                  const Program& program,
                                  const ReplayRules& rules) {
  ASYRA_RETURN_IF_ERROR(CheckFits(program.mesh, machine));
  Replayed replayed;
  replayed.costs =
      std::make_unique<CostModel>(machine, program.mesh, rules.costs);
  replayed.simulated = Simulate(program, *replayed.costs);
  if (rules.measured_only) {
    ASYRA_RETURN_IF_ERROR(CheckMeasured(program, replayed.simulated.op_costs));
  }
  return replayed;
}

void AdoptFaster(const CompileOptions& options, CompileResult other,
                 const std::string& name, CompileResult* result) {
  const Machine& machine = result->costs->machine();
  ReplayRules rules = RulesOf(options, machine);
  absl::StatusOr<Replayed> replayed = ReplayOn(machine, other.program, rules);
  if (!replayed.ok() ||
      replayed->simulated.makespan_us >= result->simulated->makespan_us ||
      TakesTooMuch(other.program, replayed->simulated, result->program,
                   *result->simulated, machine, rules.capacity_bytes)) {
    return;
  }
  std::vector<ScheduleChoice> candidates =
      std::move(result->schedule->candidates);
  for (ScheduleChoice& choice : candidates) {
    if (choice.rejected.empty()) {
      choice.rejected = "slower than the schedule found for " + name;
    }
  }
  for (ScheduleChoice& choice : other.schedule->candidates) {
    if (!choice.rejected.empty()) continue;
    choice.name += ", found for " + name;
    choice.makespan_us = replayed->simulated.makespan_us;
    candidates.push_back(std::move(choice));
  }
  other.schedule->candidates = std::move(candidates);
  other.schedule->steps += result->schedule->steps;
  other.schedule->baseline = Simulate(*other.partitioned, *replayed->costs);
  other.schedule->optimized = replayed->simulated;
  other.simulated = std::move(replayed->simulated);
  other.costs = std::move(replayed->costs);
  other.noise = std::max(result->noise, other.noise);
  other.timings = std::move(result->timings);
  *result = std::move(other);
}

std::optional<FasterSchedule> FastestOf(
    absl::Span<const FoundSchedule* const> others, const FoundSchedule& own) {
  std::optional<FasterSchedule> best;
  for (size_t i = 0; i < others.size(); ++i) {
    absl::StatusOr<Replayed> replayed =
        ReplayOn(own.machine, others[i]->program, own.rules);
    if (!replayed.ok()) continue;
    double best_us = best.has_value() ? best->simulated.makespan_us
                                      : own.simulated.makespan_us;
    if (replayed->simulated.makespan_us >= best_us ||
        TakesTooMuch(others[i]->program, replayed->simulated, own.program,
                     own.simulated, own.machine, own.rules.capacity_bytes)) {
      continue;
    }
    best = FasterSchedule{i, std::move(replayed->simulated)};
  }
  return best;
}

}  // namespace asyra
