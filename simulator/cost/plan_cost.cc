#include "simulator/cost/plan_cost.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "ir/copy_engine.h"
#include "ir/overlap.h"
#include "ir/plans/fused_reduction.h"
#include "ir/plans/overlap_shape.h"
#include "simulator/cost/collective_cost.h"
#include "simulator/cost/cost_sequence.h"
#include "simulator/cost/fused_reduction_cost.h"

namespace asyra {
namespace {

// Returns whether executors carry out the op's plan, by what it asks for.
bool IsCarried(const OpCall& call, const CostModel& costs) {
  return !AsksForCopyEngine(call.attrs) ||
         CanCarryPlans(*BodyOf(call.attrs), costs);
}

PlanSetting SettingOf(const OpCall& call) {
  return {AxesOf(*BodyOf(call.attrs)), SmMargin(call.attrs)};
}

// The ops of the body one after the other.
OpCost SequenceCost(const Body& body, const OpCall& call,
                    const CostModel& costs) {
  CostSequence sequence;
  auto types = OverlapTypes(body, call.operands, costs.mesh());
  if (!types.ok()) return sequence.Sum();
  for (size_t i = 0; i < body.ops.size(); ++i) {
    sequence.Add(costs.Cost(BodyCall(body, i, *types).call()));
  }
  return sequence.Sum();
}

}  // namespace

bool CanCarryPlans(const Body& body, const CostModel& costs) {
  return absl::c_all_of(body.ops, [&](const BodyOp& op) {
    return op.def->collective == CollectiveKind::kNone ||
           CopyEnginesReach(costs.machine(),
                            costs.SpanOf(op.attrs.Get<AxisList>("axes")));
  });
}

OpCost CopyEngineCost(const OpCall& call, const CostModel& costs) {
  AttrMap copied = call.attrs;
  AskForCopyEngine(true, &copied);
  return costs.Cost({call.def, copied, call.operands, call.results});
}

OpCost FastestTransportCost(const OpCall& call, const CostModel& costs) {
  OpCost library = costs.Cost(call), engines = CopyEngineCost(call, costs);
  return engines.time_us < library.time_us ? engines : library;
}

OverlapTimeline OverlapTimelineOf(const OpCall& call, const CostModel& costs) {
  OverlapTimeline timeline;
  if (!IsCarried(call, costs)) return timeline;
  auto plan = UnprovenPlanOf(call.attrs, call.operands, costs.mesh());
  if (!plan.ok()) return timeline;
  PlanTimes times = ReplayPlan(*plan, costs, SettingOf(call));
  timeline.time_us = times.time_us;
  // The same time is left at the end.
  double begin_us = costs.machine().gpu.kernel_us;
  for (const PlanSpan& span : times.spans) {
    const PlanStep& step = plan->steps[span.rank][span.step];
    bool works = step.kind != PlanStep::kWait && step.kind != PlanStep::kPost;
    if (span.rank != 0 || !works) continue;
    std::string name = Describe(*plan, span.rank, span.step);
    timeline.steps.push_back(
        {plan->queues[step.queue].name, name.substr(name.find(": ") + 2),
         step.kind == PlanStep::kCopy || step.kind == PlanStep::kExchange,
         begin_us + span.start_us, begin_us + span.end_us});
  }
  return timeline;
}

OpCost OverlapCost(const OpCall& call, const CostModel& costs) {
  const Body& body = *BodyOf(call.attrs);
  bool carried = IsCarried(call, costs);
  if (IsOneKernel(call.attrs)) {
    return carried ? FusedReductionCost(call, costs)
                   : SplitReductionCost(call, costs);
  }
  if (!carried) return SequenceCost(body, call, costs);
  auto plan = UnprovenPlanOf(call.attrs, call.operands, costs.mesh());
  if (!plan.ok()) return {};
  PlanTimes times = ReplayPlan(*plan, costs, SettingOf(call));
  OpCost cost;
  cost.is_compute = true;
  cost.time_us = times.time_us;
  cost.load[kHbm] = std::min(1.0, times.hbm_us / times.time_us);
  cost.load[kSms] = std::min(1.0, times.sms_us / times.time_us);
  cost.load[kCtaSlots] = std::min(1.0, times.compute_us / times.time_us);
  double moving = std::min(1.0, times.copy_us / times.time_us);
  bool inside = costs.SpanOf(AxesOf(body)).hosts == 1;
  cost.load[inside ? kLink : kNetwork] = moving;
  if (AsksForCopyEngine(call.attrs)) cost.load[kCopyEngines] = moving;
  cost.limit =
      times.compute_us > times.copy_us ? OpCost::kMath : OpCost::kLinkBytes;
  // Slower pieces stay hidden behind copies as long as these take longer.
  cost.math_us = times.math_us;
  cost.memory_us =
      std::max(0.0, times.copy_us - (times.compute_us - times.math_us));
  cost.energy = times.energy;
  // No table has whole plans.
  cost.source = std::max(times.source, OpCost::kExtrapolated);
  return cost;
}

}  // namespace asyra
