#include "ir/plans/plan_issue.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "ir/plans/plan_exchanges.h"

namespace asyra {
namespace {

// When a step ends, and how many steps lead there: those that take no time come
// one after the other too.
using End = std::pair<double, int>;

class Clock {
 public:
  explicit Clock(const ChunkPlan& plan)
      : plan_(plan),
        exchanges_(plan),
        ends_(plan.ranks),
        posts_(plan.signals.size()) {
    for (int r = 0; r < plan.ranks; ++r) {
      ends_[r].resize(plan.steps[r].size());
      AddQueues(r);
    }
  }

  // False if some steps cannot run.
  bool Run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (Queue& queue : queues_) {
        while (queue.next < queue.steps.size() && RunNext(&queue)) {
          progress = true;
        }
      }
    }
    return absl::c_all_of(queues_, [](const Queue& queue) {
      return queue.next == queue.steps.size();
    });
  }

  const std::vector<End>& ends(int rank) const { return ends_[rank]; }

 private:
  struct Queue {
    int rank;
    double total;  // of its rank, of all that takes time like its steps
    std::vector<int> steps;
    size_t next = 0;
    End end = {0, 0};
  };

  void AddQueues(int rank) {
    const std::vector<PlanStep>& steps = plan_.steps[rank];
    double computing = 0, moving = 0;
    for (const PlanStep& step : steps) {
      (plan_.queues[step.queue].computes ? computing : moving) += WorkOf(step);
    }
    size_t first = queues_.size();
    for (const PlanQueue& queue : plan_.queues) {
      queues_.push_back({rank, queue.computes ? computing : moving, {}});
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      queues_[first + steps[i].queue].steps.push_back(static_cast<int>(i));
    }
  }

  // In elements; sums take little beside pieces.
  static double WorkOf(const PlanStep& step) {
    if (step.kind == PlanStep::kExchange) {
      int64_t sent = 0;
      for (const PlanRegion& read : step.reads) sent += read.box.elements();
      return static_cast<double>(sent);
    }
    bool takes_time =
        step.kind == PlanStep::kPiece || step.kind == PlanStep::kCopy;
    return takes_time ? static_cast<double>(step.write.box.elements()) : 0;
  }

  bool RunNext(Queue* queue) {
    int index = queue->steps[queue->next];
    const PlanStep& step = plan_.steps[queue->rank][index];
    End end = queue->end;
    if (step.kind == PlanStep::kExchange) {
      std::vector<Queue*> queues = QueuesAt(step.count);
      if (queues.empty()) return false;
      RunExchange(queues);
      return true;
    }
    if (step.kind == PlanStep::kWait) {
      const std::vector<End>& posts = posts_[step.signal];
      if (posts.size() < static_cast<size_t>(step.count)) return false;
      end = std::max(end, posts[step.count - 1]);
    }
    if (queue->total > 0) end.first += WorkOf(step) / queue->total;
    // Posts that follow on a queue stay together: they are issued as one.
    if (!FollowsPost(*queue)) ++end.second;
    queue->end = ends_[queue->rank][index] = end;
    if (step.kind == PlanStep::kPost) posts_[step.signal].push_back(end);
    ++queue->next;
    return true;
  }

  // Returns whether the queue's next step is a post behind another one.
  bool FollowsPost(const Queue& queue) const {
    auto posts = [&](size_t next) {
      const PlanStep& step = plan_.steps[queue.rank][queue.steps[next]];
      return step.kind == PlanStep::kPost;
    };
    return queue.next > 0 && posts(queue.next) && posts(queue.next - 1);
  }

  // Returns the queues of an exchange if all of them have come to it.
  std::vector<Queue*> QueuesAt(int number) {
    std::vector<Queue*> queues;
    for (const PlanExchanges::Part& part : exchanges_.Parts(number)) {
      int of_queue = plan_.steps[part.rank][part.step].queue;
      Queue& queue = queues_[part.rank * plan_.queues.size() + of_queue];
      if (queue.next == queue.steps.size() ||
          queue.steps[queue.next] != part.step) {
        return {};
      }
      queues.push_back(&queue);
    }
    return queues;
  }

  void RunExchange(const std::vector<Queue*>& queues) {
    End all = {0, 0};
    for (Queue* queue : queues) {
      const PlanStep& step =
          plan_.steps[queue->rank][queue->steps[queue->next]];
      End end = queue->end;
      if (queue->total > 0) end.first += WorkOf(step) / queue->total;
      ++end.second;
      all = std::max(all, end);
    }
    for (Queue* queue : queues) {
      queue->end = ends_[queue->rank][queue->steps[queue->next]] = all;
      ++queue->next;
    }
  }

  const ChunkPlan& plan_;
  const PlanExchanges exchanges_;
  std::vector<Queue> queues_;            // of all ranks
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
    absl::c_stable_sort(order, [&](int a, int b) {
      return std::pair(ends[a], plan->steps[r][a].queue) <
             std::pair(ends[b], plan->steps[r][b].queue);
    });
    std::vector<PlanStep> steps;
    for (int index : order) steps.push_back(std::move(plan->steps[r][index]));
    plan->steps[r] = std::move(steps);
  }
}

}  // namespace asyra
