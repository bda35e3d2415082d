#include "simulator/cost/fused_reduction_cost.h"

#include <algorithm>

#include "ir/overlap.h"
#include "ir/plans/fused_reduction.h"
#include "simulator/cost/cost_sequence.h"
#include "simulator/cost/energy.h"
#include "simulator/cost/plan_cost.h"

namespace asyra {
namespace {

AttrMap RowsAttrs(const FusedReduction& fused) {
  return {{"body", BodyRef(fused.rows)}};
}

}  // namespace

OpCost SplitReductionCost(const OpCall& call, const CostModel& costs) {
  const Body& body = *BodyOf(call.attrs);
  CostSequence sequence;
  auto types = OverlapTypes(body, call.operands, costs.mesh());
  auto fused = FusedReductionOf(body, call.operands, costs.mesh());
  if (!types.ok() || !fused.ok()) return sequence.Sum();
  for (size_t i = 0; i < body.ops.size(); ++i) {
    if (body.ops[i].def->collective == CollectiveKind::kNone) continue;
    BodyCall part(body, i, *types);
    sequence.Add(FastestTransportCost(part.call(), costs));
  }
  AttrMap attrs = RowsAttrs(*fused);
  sequence.Add(
      costs.Cost({*FindOp("fusion"), attrs, fused->operands, fused->results}));
  return sequence.Sum();
}

OpCost FusedReductionCost(const OpCall& call, const CostModel& costs) {
  OpCost cost;
  auto fused =
      FusedReductionOf(*BodyOf(call.attrs), call.operands, costs.mesh());
  if (!fused.ok()) return cost;
  const Machine& machine = costs.machine();
  AttrMap attrs = RowsAttrs(*fused);
  Work rows =
      WorkOf({*FindOp("fusion"), attrs, fused->operands, fused->results},
             costs.mesh());
  auto moved_us = [](double bytes, const Rate& rate) {
    return bytes / (rate.achievable * 1e3);
  };
  // Into a device come the summands that it reads, and what others write there;
  // as much goes out.
  double link_us = moved_us(
      static_cast<double>(fused->read_from_others + fused->written_to_others),
      machine.link_gbps);
  // The others read their summands in this device's memory.
  double hbm_us = moved_us(rows.read_bytes + rows.write_bytes +
                               static_cast<double>(fused->read_from_others),
                           machine.gpu.hbm_gbps);
  double longest_us = std::max(link_us, hbm_us);
  cost.is_compute = true;
  cost.time_us = machine.gpu.kernel_us + 2 * kPeerMeetingUs + longest_us;
  cost.energy.bytes_uj =
      MemoryEnergyUj(machine.gpu, rows.read_bytes + rows.write_bytes) +
      LinkEnergyUj(machine.gpu, static_cast<double>(fused->read_from_others +
                                                    fused->written_to_others));
  cost.load[kHbm] = std::min(1.0, hbm_us / cost.time_us);
  cost.load[kLink] = std::min(1.0, link_us / cost.time_us);
  cost.load[kSms] = cost.load[kCtaSlots] = 1;
  cost.limit = link_us > hbm_us ? OpCost::kLinkBytes : OpCost::kMemory;
  cost.source = OpCost::kFormula;
  return cost;
}

}  // namespace asyra
