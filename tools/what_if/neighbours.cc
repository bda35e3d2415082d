#include "tools/what_if/neighbours.h"

#include <algorithm>
#include <utility>

#include "ir/support/status.h"
#include "simulator/replay/library_memory.h"
#include "simulator/replay/memory.h"
#include "simulator/replay/simulate.h"
#include "simulator/report/profile.h"

namespace asyra {
namespace {

// More memory than the device has, and more than the program it would replace.
bool TakesTooMuch(const Program& program, const SimResult& simulated,
                  const Program& own, const SimResult& own_simulated,
                  const Machine& machine, double capacity_gib) {
  int64_t bytes = ReportMemory(program, simulated, machine).device_bytes;
  int64_t capacity = CapacityBytes(capacity_gib, machine);
  if (capacity == 0 || bytes <= capacity) return false;
  return bytes > ReportMemory(own, own_simulated, machine).device_bytes;
}

}  // namespace

absl::StatusOr<Replayed> ReplayOn(const Machine& machine,
                                  const Program& program,
                                  const CompileFlags& options) {
  ASYRA_RETURN_IF_ERROR(CheckFits(program.mesh, machine));
  Replayed replayed;
  replayed.costs =
      std::make_unique<CostModel>(machine, program.mesh, CostsOf(options));
  replayed.simulated = Simulate(program, *replayed.costs);
  if (options.measured_only) {
    ASYRA_RETURN_IF_ERROR(CheckMeasured(program, replayed.simulated.op_costs));
  }
  return replayed;
}

void AdoptFaster(const CompileFlags& options, CompiledModel other,
                 const std::string& name, CompiledModel* result) {
  absl::StatusOr<Replayed> replayed =
      ReplayOn(result->costs->machine(), other.program, options);
  if (!replayed.ok() ||
      replayed->simulated.makespan_us >= result->simulated->makespan_us ||
      TakesTooMuch(other.program, replayed->simulated, result->program,
                   *result->simulated, result->costs->machine(),
                   options.capacity_gib)) {
    return;
  }
  ScheduleResult& schedule = *other.schedule;
  for (ScheduleChoice& choice : result->schedule->candidates) {
    if (choice.rejected.empty()) {
      choice.rejected = "slower than the schedule found for " + name;
    }
  }
  for (ScheduleChoice& choice : schedule.candidates) {
    if (!choice.rejected.empty()) continue;
    choice.name += ", found for " + name;
    choice.makespan_us = replayed->simulated.makespan_us;
    result->schedule->candidates.push_back(std::move(choice));
  }
  schedule.candidates = std::move(result->schedule->candidates);
  schedule.steps += result->schedule->steps;
  schedule.baseline = Simulate(*other.partitioned, *replayed->costs);
  schedule.optimized = replayed->simulated;
  result->schedule = std::move(other.schedule);
  result->partitioned = std::move(other.partitioned);
  result->unscheduled = std::move(other.unscheduled);
  result->program = std::move(other.program);
  result->simulated = std::move(replayed->simulated);
  result->costs = std::move(replayed->costs);
  result->remarks = std::move(other.remarks);
  result->noise = std::max(result->noise, other.noise);
}

std::optional<FasterSchedule> FastestOf(
    absl::Span<const FoundSchedule* const> others, const FoundSchedule& own) {
  std::optional<FasterSchedule> best;
  for (size_t i = 0; i < others.size(); ++i) {
    absl::StatusOr<Replayed> replayed =
        ReplayOn(own.machine, others[i]->program, own.options);
    if (!replayed.ok()) continue;
    double best_us = best.has_value() ? best->simulated.makespan_us
                                      : own.simulated.makespan_us;
    if (replayed->simulated.makespan_us >= best_us ||
        TakesTooMuch(others[i]->program, replayed->simulated, own.program,
                     own.simulated, own.machine, own.options.capacity_gib)) {
      continue;
    }
    best = FasterSchedule{i, std::move(replayed->simulated)};
  }
  return best;
}

}  // namespace asyra
