#include "passes/schedule/transport/overlap_choice.h"

#include <algorithm>

#include "ir/overlap.h"
#include "ir/plans/overlap_shape.h"
#include "simulator/cost/collective_cost.h"
#include "simulator/cost/plan_cost.h"
#include "simulator/replay/plan_tuner.h"

namespace asyra {
namespace {

// An overlap must be faster alone by this share, and no less than some signals
// cost, or nothing is left of it beside other ops.
constexpr double kLeastGain = 0.03;
// The same where what moves is hidden anyway.
constexpr double kLeastHiddenGain = 0.01;
// Plans were measured 6 % slower, at most, than their measured pieces say.
constexpr double kLeastMeasuredGain = 0.06;
// Next to less computation nothing gained on two H200, whatever the plan.
constexpr double kLeastWorkUs = 50;

}  // namespace

std::optional<AttrMap> OverlapChoice::Choose(const OverlapSite& site) {
  return Find(site, /*hidden=*/false);
}

std::optional<AttrMap> OverlapChoice::ChooseHidden(const OverlapSite& site) {
  return Find(site, /*hidden=*/true);
}

std::optional<AttrMap> OverlapChoice::Find(const OverlapSite& site,
                                           bool hidden) {
  std::vector<Type> operands;
  for (ValueId value : site.operands) operands.push_back(program_.type(value));
  for (const Known& known : known_) {
    if (known.body == site.body && known.operands == operands &&
        known.hidden == hidden) {
      return known.attrs;
    }
  }
  std::optional<AttrMap> attrs = Best(site, hidden, operands);
  known_.push_back({site.body, std::move(operands), hidden, attrs});
  return attrs;
}

OverlapChoice::Alone OverlapChoice::AloneOf(
    const OverlapSite& site, absl::Span<const Type> operands) const {
  Alone alone;
  auto types = OverlapTypes(site.body, operands, program_.mesh);
  if (!types.ok()) return alone;
  for (size_t i = 0; i < site.body.ops.size(); ++i) {
    BodyCall use(site.body, i, *types);
    if (site.body.ops[i].def->collective == CollectiveKind::kNone) {
      alone.compute_us += costs_.Cost(use.call()).time_us;
    } else {
      alone.comm_us += FastestTransportCost(use.call(), costs_).time_us;
      if (!CanUseCopyEngine(costs_.machine(), use.call(), program_.mesh)) {
        continue;
      }
      OpCost copies = CopyEngineCost(use.call(), costs_);
      alone.kernels_us +=
          (1 - copies.kernel_start_fraction) * copies.held_sms * copies.time_us;
    }
  }
  return alone;
}

double OverlapChoice::LeastGain(bool hidden) const {
  if (hidden) return kLeastHiddenGain;
  return taking_ == OverlapTaking::kMeasured ? kLeastMeasuredGain : kLeastGain;
}

std::optional<AttrMap> OverlapChoice::Best(
    const OverlapSite& site, bool hidden,
    absl::Span<const Type> operands) const {
  bool copies = CanCarryPlans(site.body, costs_);
  // Hidden anyway: only kernels would be saved, which messages have.
  bool always = taking_ == OverlapTaking::kAll;
  if (!always && hidden && !copies) return std::nullopt;
  Alone alone = AloneOf(site, operands);
  double most_us =
      alone.compute_us + (hidden ? alone.kernels_us : alone.comm_us);
  most_us *= 1 - LeastGain(hidden);
  // No plan is faster than this.
  double bound_us = alone.compute_us;
  if (copies) bound_us = std::max(bound_us, kCopyPostUs + kCopyIssueUs);
  if (!always && (bound_us >= most_us || alone.compute_us < kLeastWorkUs)) {
    return std::nullopt;
  }
  OverlapTuning tuned = TuneOverlap(site.body, operands, site.order, costs_);
  bool gains = tuned.time_us > 0 && tuned.time_us < most_us;
  if (tuned.time_us == 0 || (!always && !gains)) return std::nullopt;
  if (taking_ == OverlapTaking::kMeasured &&
      tuned.source > OpCost::kInterpolated) {
    return std::nullopt;
  }
  AttrMap attrs = {{"body", BodyRef(site.body)}};
  if (!CompleteAttrs(*FindOp("overlap"), &attrs).ok()) return std::nullopt;
  SetPlanShape(tuned.shape, &attrs);
  if (tuned.sm_margin > 0) attrs.Set("sm_margin", int64_t{tuned.sm_margin});
  return attrs;
}

}  // namespace asyra
