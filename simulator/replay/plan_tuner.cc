#include "simulator/replay/plan_tuner.h"

#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "ir/overlap.h"
#include "ir/plans/overlap_shape.h"
#include "ir/plans/verify_plan.h"
#include "simulator/cost/plan_cost.h"
#include "simulator/cost/plan_groups.h"

namespace asyra {
namespace {

constexpr int64_t kParts[] = {1, 2, 4, 8};
// SMs for the library's exchanges.
constexpr int kMargins[] = {4, 8, 16};
// The most pieces of an op, cut by ranks and parts.
constexpr int64_t kMostPieces = 64;
// Groups of more chunks are not tried.
constexpr int64_t kMostChunks = 32;
constexpr size_t kGrouped = 3;  // shapes whose chunks are grouped, the fastest

class Tuner {
 public:
  // Refers to all of them. `body` is what members of a group see of `call`.
  Tuner(const GroupBody& body, const OpCall& call, const CostModel& costs)
      : body_(body),
        call_(call),
        costs_(costs),
        copies_(CanCarryPlans(*BodyOf(call.attrs), costs)),
        setting_{.axes = AxesOf(*BodyOf(call.attrs))} {}

  std::vector<OverlapTuning> Fastest(PlanOrder order, size_t most) {
    if (copies_) {
      TryParts(order);
    } else {
      for (int margin : kMargins) {
        setting_.sm_margin = margin;
        TryParts(order);
      }
    }
    if (tried_.empty()) return {};
    for (const OverlapTuning& tuned : FastestByPieces(kGrouped)) {
      setting_.sm_margin = tuned.sm_margin;
      TryGroups(tuned.shape);
    }
    TryQueues();
    // Proven last: few are chosen.
    SortBy(&OverlapTuning::time_us, &tried_);
    std::vector<OverlapTuning> fastest;
    for (const OverlapTuning& tuned : tried_) {
      if (fastest.size() == most) break;
      bool again = absl::c_any_of(fastest, [&](const OverlapTuning& other) {
        return other.shape == tuned.shape && other.sm_margin == tuned.sm_margin;
      });
      if (again) continue;
      auto plan = MakePlan(body_, tuned.shape);
      if (plan.ok() && VerifyPlan(*plan).ok()) fastest.push_back(tuned);
    }
    return fastest;
  }

 private:
  void TryParts(PlanOrder order) {
    std::vector<PlanRoute> routes = {PlanRoute::kDirect};
    // A ring of two ranks is the direct one.
    if (body_.ranks > 2) routes.push_back(PlanRoute::kRing);
    int64_t of_host = RanksOfAHost();
    if (of_host > 1) routes.push_back(PlanRoute::kTwoLevels);
    for (int64_t parts : kParts) {
      // Pieces are then smaller than is worth their start.
      if (parts > 1 && parts * body_.ranks > kMostPieces) break;
      for (PlanRoute route : routes) {
        for (bool in_pieces : {false, true}) {
          Try({.order = order,
               .route = route,
               .parts = parts,
               .inner = route == PlanRoute::kTwoLevels ? of_host : 0,
               .sums_in_pieces = in_pieces,
               .exchanges = !copies_});
        }
      }
    }
  }

  // Returns how many ranks follow each other on one host, if there are several
  // hosts with so many; else 0.
  int64_t RanksOfAHost() const {
    GroupSpan span = costs_.SpanOf(setting_.axes);
    if (span.hosts == 1) return 0;
    std::vector<int64_t> host =
        HostsOf(costs_.mesh(), setting_.axes, costs_.machine().gpus_per_host);
    for (size_t i = 0; i < host.size(); ++i) {
      size_t seat = i % static_cast<size_t>(span.per_host);
      bool begins = i == 0 || host[i] != host[i - 1];
      if (begins != (seat == 0)) return 0;
    }
    return span.per_host;
  }

  // Facts that the replay of a shape tells of its groups.
  struct Seen {
    double pieces_us = 0;  // all pieces of rank 0
    double copy_us = 0;    // the first copy of rank 0 to another
    std::vector<double> arrivals_us;
  };

  bool Try(const PlanShape& shape, Seen* seen = nullptr) {
    auto plan = MakePlan(body_, shape);
    if (!plan.ok()) return false;
    PlanTimes times = ReplayPlan(*plan, costs_, setting_);
    tried_.push_back({shape, setting_.sm_margin,
                      times.time_us * MeasuredFactor(shape), times.time_us,
                      times.source});
    if (seen == nullptr) return true;
    for (const PlanSpan& span : times.spans) {
      const PlanStep& step = plan->steps[span.rank][span.step];
      if (step.kind == PlanStep::kPiece && span.rank == 0) {
        seen->pieces_us += span.end_us - span.start_us;
      }
      if (step.kind == PlanStep::kExchange && span.rank == 0) {
        seen->arrivals_us.push_back(span.end_us);
        if (seen->copy_us == 0) seen->copy_us = span.end_us - span.start_us;
      }
      if (step.kind != PlanStep::kCopy ||
          step.reads[0].rank == step.write.rank) {
        continue;
      }
      if (step.write.rank == 0) {
        seen->arrivals_us.push_back(span.end_us + kCopyPostUs);
      }
      if (step.reads[0].rank == 0 && seen->copy_us == 0) {
        seen->copy_us = span.end_us - span.start_us;
      }
    }
    return true;
  }

  double MeasuredFactor(const PlanShape& shape) const {
    AttrMap attrs = call_.attrs;
    SetPlanShape(shape, &attrs);
    return costs_.MeasuredFactor(
        {call_.def, attrs, call_.operands, call_.results});
  }

  // Returns the fastest before corrections by measured plans: the shapes that
  // are tried are then the same whatever was measured.
  std::vector<OverlapTuning> FastestByPieces(size_t most) const {
    std::vector<OverlapTuning> fastest = tried_;
    SortBy(&OverlapTuning::pieces_us, &fastest);
    fastest.resize(std::min(fastest.size(), most));
    return fastest;
  }

  // Fastest first.
  static void SortBy(double OverlapTuning::*us,
                     std::vector<OverlapTuning>* tunings) {
    std::stable_sort(tunings->begin(), tunings->end(),
                     [us](const OverlapTuning& a, const OverlapTuning& b) {
                       return a.*us < b.*us;
                     });
  }

  // Groups of equal sizes; from their costs, the best of any sizes.
  void TryGroups(PlanShape shape) {
    auto chunks = ChunksOfARank(body_, shape);
    if (!chunks.ok() || *chunks < 2 || *chunks > kMostChunks) return;
    std::map<int64_t, double> piece_us;  // by size of a group
    Seen alone;
    for (int64_t size = 1; size <= *chunks; ++size) {
      if (*chunks % size != 0) continue;
      Seen seen;
      int64_t count = *chunks / size;
      shape.groups.clear();  // each alone
      if (size > 1) shape.groups.assign(count, size);
      if (!Try(shape, &seen)) return;
      piece_us[size] = seen.pieces_us / static_cast<double>(count);
      if (size == 1) alone = std::move(seen);
    }
    auto piece = [&](int64_t size) { return Between(piece_us, size); };
    auto move = [&](int64_t size) {
      return kCopyIssueUs +
             (alone.copy_us - kCopyIssueUs) * static_cast<double>(size);
    };
    GroupPlan plan;
    if (shape.order == PlanOrder::kOwnFirst) {
      std::vector<double>& arrivals = alone.arrivals_us;
      std::sort(arrivals.begin(), arrivals.end());
      // The rank's own chunks are available.
      if (static_cast<int64_t>(arrivals.size()) > *chunks) return;
      arrivals.insert(arrivals.begin(), *chunks - arrivals.size(), 0);
      plan = BestGroupsOfArrivals(arrivals, piece);
    } else {
      plan = BestGroupsToMove(*chunks, piece, move);
    }
    shape.groups = plan.groups;
    Try(shape);
  }

  // Tries more queues for the fastest shape that sends directly: signals behind
  // the copies of one pass beside those of another.
  void TryQueues() {
    if (!copies_ || body_.ranks < 3) return;
    for (OverlapTuning& tuned : FastestByPieces(tried_.size())) {
      if (tuned.shape.route != PlanRoute::kDirect) continue;
      for (int queues : {2, 3}) {
        tuned.shape.copy_queues = queues;
        Try(tuned.shape);
      }
      return;
    }
  }

  // Linear between the sizes that are known, which hold 1 and the largest.
  static double Between(const std::map<int64_t, double>& known, int64_t size) {
    auto above = known.lower_bound(size);
    if (above->first == size) return above->second;
    auto below = std::prev(above);
    double share = static_cast<double>(size - below->first) /
                   static_cast<double>(above->first - below->first);
    return below->second + share * (above->second - below->second);
  }

  const GroupBody& body_;
  const OpCall& call_;
  const CostModel& costs_;
  const bool copies_;  // by copy engines, else by messages
  PlanSetting setting_;
  std::vector<OverlapTuning> tried_;
};

}  // namespace

std::vector<OverlapTuning> FastestOverlaps(const Body& body,
                                           absl::Span<const Type> operands,
                                           PlanOrder order,
                                           const CostModel& costs,
                                           size_t most) {
  const OpDef& overlap = *FindOp("overlap");
  AttrMap attrs = {{"body", BodyRef(body)}};
  auto types = OverlapTypes(body, operands, costs.mesh());
  auto group = GroupBodyOf(body, operands, costs.mesh());
  if (!types.ok() || !group.ok() || !CompleteAttrs(overlap, &attrs).ok()) {
    return {};
  }
  std::vector<Type> results;
  for (int value : body.results) results.push_back((*types)[value]);
  OpCall call{overlap, attrs, operands, results};
  return Tuner(*group, call, costs).Fastest(order, most);
}

OverlapTuning TuneOverlap(const Body& body, absl::Span<const Type> operands,
                          PlanOrder order, const CostModel& costs) {
  std::vector<OverlapTuning> fastest =
      FastestOverlaps(body, operands, order, costs, 1);
  return fastest.empty() ? OverlapTuning() : fastest[0];
}

}  // namespace asyra
