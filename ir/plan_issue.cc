#include "ir/plan_issue.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"

namespace asyra {
namespace {

// When a step ends, and how many steps lead there: those that take no time come
// one after the other too.
using End = std::pair<double, int>;

class Clock {
 public:
  explicit Clock(const ChunkPlan& plan)
      : plan_(plan), ends_(plan.ranks), posts_(plan.signals.size()) {
    for (int r = 0; r < plan.ranks; ++r) {
      ends_[r].resize(plan.steps[r].size());
      AddLanes(r);
    }
  }

  // False if some steps cannot run.
  bool Run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (Lane& lane : lanes_) {
        while (lane.next < lane.steps.size() && RunNext(&lane)) progress = true;
      }
    }
    return absl::c_all_of(lanes_, [](const Lane& lane) {
      return lane.next == lane.steps.size();
    });
  }

  const std::vector<End>& ends(int rank) const { return ends_[rank]; }

 private:
  struct Lane {
    int rank;
    double total;  // of its rank, of all that takes time like its steps
    std::vector<int> steps;
    size_t next = 0;
    End end = {0, 0};
  };

  void AddLanes(int rank) {
    const std::vector<PlanStep>& steps = plan_.steps[rank];
    double computing = 0, moving = 0;
    for (const PlanStep& step : steps) {
      (plan_.lanes[step.lane].computes ? computing : moving) += WorkOf(step);
    }
    size_t first = lanes_.size();
    for (const PlanLane& lane : plan_.lanes) {
      lanes_.push_back({rank, lane.computes ? computing : moving, {}});
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      lanes_[first + steps[i].lane].steps.push_back(static_cast<int>(i));
    }
  }

  // In elements; sums take little beside pieces.
  static double WorkOf(const PlanStep& step) {
    bool takes_time =
        step.kind == PlanStep::kPiece || step.kind == PlanStep::kCopy;
    return takes_time ? static_cast<double>(step.write.box.elements()) : 0;
  }

  bool RunNext(Lane* lane) {
    int index = lane->steps[lane->next];
    const PlanStep& step = plan_.steps[lane->rank][index];
    End end = lane->end;
    if (step.kind == PlanStep::kWait) {
      const std::vector<End>& posts = posts_[step.signal];
      if (posts.size() < static_cast<size_t>(step.count)) return false;
      end = std::max(end, posts[step.count - 1]);
    }
    if (lane->total > 0) end.first += WorkOf(step) / lane->total;
    ++end.second;
    lane->end = ends_[lane->rank][index] = end;
    if (step.kind == PlanStep::kPost) posts_[step.signal].push_back(end);
    ++lane->next;
    return true;
  }

  const ChunkPlan& plan_;
  std::vector<Lane> lanes_;              // of all ranks
  std::vector<std::vector<End>> ends_;   // by rank and step
  std::vector<std::vector<End>> posts_;  // by signal
};

}  // namespace

void OrderOfIssue(ChunkPlan* plan) {
  Clock clock(*plan);
  if (!clock.Run()) return;
  for (int r = 0; r < plan->ranks; ++r) {
    const std::vector<End>& ends = clock.ends(r);
    std::vector<int> order(ends.size());
    std::iota(order.begin(), order.end(), 0);
    absl::c_stable_sort(order, [&](int a, int b) { return ends[a] < ends[b]; });
    std::vector<PlanStep> steps;
    for (int index : order) steps.push_back(std::move(plan->steps[r][index]));
    plan->steps[r] = std::move(steps);
  }
}

}  // namespace asyra
