#include "passes/search/first_look.h"

#include "ir/support/status.h"
#include "passes/analysis/shorten.h"
#include "passes/search/candidate_search.h"
#include "simulator/replay/simulate.h"

namespace asyra {
namespace {

// Returns the time of all ops that compute, alone.
double ComputeUs(const Program& program, const CostModel& costs) {
  double sum = 0;
  for (const OpCost& cost : EstimateCosts(program, costs)) {
    if (cost.is_compute) sum += cost.time_us;
  }
  return sum;
}

}  // namespace

absl::StatusOr<Merit> FirstLook(const Program& program,
                                const ScheduleOptions& options,
                                PassContext& context, int* steps) {
  if (context.costs == nullptr)
    return Invalid("needs costs: there are none in PassContext::costs");
  int64_t capacity = CapacityOf(options, context.costs->machine());
  int64_t cut_bytes = 0;
  Program shorter = Shorten(program, kScheduledLayers, &cut_bytes);
  int taken = 0;
  auto look =
      CandidateSearch(shorter, cut_bytes, options, capacity, context, &taken)
          .FirstLook();
  if (steps != nullptr) *steps += taken;
  if (!look.ok()) return look;
  // The layers that were cut compute at least. Shorter programs of two
  // strategies may have different numbers of them.
  look->makespan_us +=
      ComputeUs(program, *context.costs) - ComputeUs(shorter, *context.costs);
  return look;
}

}  // namespace asyra
