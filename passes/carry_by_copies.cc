#include "passes/carry_by_copies.h"

#include "simulator/collective_cost.h"

namespace asyra {
namespace {

// By how much a collective may take longer alone.
constexpr double kMostSlower = 1.5;

bool MayBeCopied(const Op& op, const CostModel& costs) {
  return op.is_collective() && op.operands.size() == 1 &&
         op.attrs.Int("ctas") == 0 && !op.attrs.Bool("copies") &&
         CanCopy(costs.machine(), costs.SpanOf(op.attrs.Get<AxisList>("axes")));
}

}  // namespace

int CarryByCopies(Program& program, const CostModel& costs) {
  Program copied = program;
  std::vector<size_t> candidates;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (!MayBeCopied(program.ops[i], costs)) continue;
    copied.ops[i].attrs.Set("copies", true);
    candidates.push_back(i);
  }
  if (candidates.empty()) return 0;
  std::vector<OpCost> before = PriceOps(program, costs);
  std::vector<OpCost> after = PriceOps(copied, costs);
  int set = 0;
  for (size_t i : candidates) {
    if (after[i].time_us > before[i].time_us * kMostSlower) continue;
    program.ops[i].attrs.Set("copies", true);
    ++set;
  }
  return set;
}

}  // namespace asyra
