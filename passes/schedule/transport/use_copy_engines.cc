#include "passes/schedule/transport/use_copy_engines.h"

#include "ir/copy_engine.h"
#include "ir/support/status.h"
#include "simulator/cost/collective_cost.h"

namespace asyra {
namespace {

// The most by which a collective may take longer alone, as a factor.
constexpr double kMostSlower = 1.5;

}  // namespace

bool IsCarrierOpen(const Op& op) {
  return op.is_collective() && op.attrs.Int("ctas") == 0 &&
         !AsksForCopyEngine(op.attrs);
}

bool CanUseCopyEngine(const Program& program, const Op& op,
                      const CostModel& costs) {
  return op.is_collective() &&
         CanUseCopyEngine(costs.machine(), OpUse(program, op), program.mesh);
}

int UseCopyEngines(Program& program, const CostModel& costs) {
  Program copied = program;
  std::vector<size_t> candidates;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (!IsCarrierOpen(op) || !CanUseCopyEngine(program, op, costs)) continue;
    AskForCopyEngine(true, &copied.ops[i].attrs);
    candidates.push_back(i);
  }
  if (candidates.empty()) return 0;
  std::vector<OpCost> before = EstimateCosts(program, costs);
  std::vector<OpCost> after = EstimateCosts(copied, costs);
  int set = 0;
  for (size_t i : candidates) {
    if (after[i].time_us > before[i].time_us * kMostSlower) continue;
    AskForCopyEngine(true, &program.ops[i].attrs);
    ++set;
  }
  return set;
}

absl::StatusOr<bool> UseCopyEnginesPass(Program& program, const PassOptions&,
                                        PassContext& context) {
  if (context.costs == nullptr)
    return Invalid("needs costs: there are none in PassContext::costs");
  if (UseCopyEngines(program, *context.costs) > 0) return true;
  context.Remark(
      "use_copy_engines: no collective that they carry about as fast");
  return false;
}

}  // namespace asyra
