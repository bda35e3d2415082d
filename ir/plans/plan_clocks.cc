#include "ir/plans/plan_clocks.h"

#include <algorithm>
#include <map>

#include "ir/support/status.h"

namespace asyra {

PlanClocks::PlanClocks(const ChunkPlan& plan, int connections)
    : plan_(plan), connections_(connections) {
  for (int r = 0; r < plan_.ranks; ++r) {
    for (size_t i = 0; i < plan_.steps[r].size(); ++i) {
      nodes_.push_back({r, static_cast<int>(i)});
    }
  }
}

absl::Status PlanClocks::Find() {
  ASYRA_RETURN_IF_ERROR(CheckCounts());
  return FindOrder();
}

absl::Status PlanClocks::At(int node, const absl::Status& status) const {
  return status.ok() ? status : Annotate(status, Name(node));
}

absl::Status PlanClocks::CheckCounts() {
  std::vector<int> posted(plan_.signals.size(), 0), awaited = posted;
  std::vector<int> last_post(plan_.signals.size(), -1);
  post_of_.resize(plan_.signals.size());
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const PlanStep& step = StepOf(static_cast<int>(n));
    bool posts = step.kind == PlanStep::kPost;
    if (!posts && step.kind != PlanStep::kWait) continue;
    int& count = (posts ? posted : awaited)[step.signal];
    bool follows = posts ? step.count == count + 1 : step.count > count;
    if (!follows) {
      return At(static_cast<int>(n),
                Invalid("count {} comes after count {}", step.count, count));
    }
    count = step.count;
    if (!posts) continue;
    post_of_[step.signal].push_back(static_cast<int>(n));
    last_post[step.signal] = static_cast<int>(n);
  }
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const PlanStep& step = StepOf(static_cast<int>(n));
    if (step.kind != PlanStep::kWait || step.count <= posted[step.signal]) {
      continue;
    }
    return At(static_cast<int>(n),
              Invalid("it is posted {} times only", posted[step.signal]));
  }
  for (size_t s = 0; s < posted.size(); ++s) {
    if (posted[s] == awaited[s]) continue;
    return At(last_post[s],
              Invalid("nobody waits for it, only for count {}", awaited[s]));
  }
  return absl::OkStatus();
}

// Vector clocks, in an order in which the steps can run.
absl::Status PlanClocks::FindOrder() {
  int slots = plan_.ranks * num_queues();
  clock_.assign(nodes_.size(), std::vector<int>(slots, 0));
  position_.assign(nodes_.size(), 0);
  passed_.assign(slots, 0);
  last_of_queue_.assign(slots, -1);
  std::vector<bool> done(nodes_.size(), false);
  // By rank and connection, its steps in order of issue.
  std::map<std::pair<int, int>, std::vector<int>> issued;
  for (size_t n = 0; n < nodes_.size(); ++n) {
    int node = static_cast<int>(n);
    issued[{nodes_[n].rank, ConnectionOf(StepOf(node).queue)}].push_back(node);
  }
  std::map<std::pair<int, int>, size_t> next;
  size_t finished = 0;
  for (bool progress = true; progress;) {
    progress = false;
    for (auto& [key, steps] : issued) {
      size_t& at = next[key];
      while (at < steps.size() && CanRun(steps[at], done)) {
        int node = steps[at++];
        Run(node);
        done[node] = true;
        ++finished;
        progress = true;
      }
    }
  }
  if (finished == nodes_.size()) return absl::OkStatus();
  for (auto& [key, steps] : issued) {
    if (next[key] == steps.size()) continue;
    int node = steps[next[key]];
    int post = post_of_[StepOf(node).signal][StepOf(node).count - 1];
    return At(node, Invalid("a deadlock: it waits for {}, which waits "
                            "for this in the end",
                            Name(post)));
  }
  return absl::OkStatus();
}

// Covers devices that keep a signal as a flag that is set and cleared: the
// poster ends its op only after the wait, or posts only when the rank that
// waits has begun the next step, after the wait of this one.
absl::Status PlanClocks::CheckRepeats() const {
  std::vector<int> before(plan_.signals.size(), 0);
  for (int n = 0; n < size(); ++n) {
    const PlanStep& step = StepOf(n);
    if (step.kind != PlanStep::kWait) continue;
    const PlanSignal& signal = plan_.signals[step.signal];
    for (int& count = before[step.signal]; count < step.count; ++count) {
      int post = post_of_[step.signal][count];
      if (EndsAfter(signal.from_rank, n) || BegunBefore(signal.to_rank, post)) {
        continue;
      }
      return At(n,
                Invalid("rank {} may post it again before", signal.from_rank));
    }
  }
  return absl::OkStatus();
}

bool PlanClocks::CanRun(int node, const std::vector<bool>& done) const {
  const PlanStep& step = StepOf(node);
  return step.kind != PlanStep::kWait ||
         done[post_of_[step.signal][step.count - 1]];
}

void PlanClocks::Run(int node) {
  auto join = [&](int earlier) {
    for (size_t s = 0; s < clock_[node].size(); ++s) {
      clock_[node][s] = std::max(clock_[node][s], clock_[earlier][s]);
    }
  };
  const PlanStep& step = StepOf(node);
  int slot = Slot(node);
  if (last_of_queue_[slot] >= 0) join(last_of_queue_[slot]);
  if (step.kind == PlanStep::kWait) {
    join(post_of_[step.signal][step.count - 1]);
  }
  position_[node] = ++passed_[slot];
  clock_[node][slot] = position_[node];
  last_of_queue_[slot] = node;
}

bool PlanClocks::BegunBefore(int rank, int node) const {
  if (nodes_[node].rank == rank) return true;
  for (int queue = 0; queue < num_queues(); ++queue) {
    if (clock_[node][rank * num_queues() + queue] > 0) return true;
  }
  return false;
}

bool PlanClocks::EndsAfter(int rank, int node) const {
  if (nodes_[node].rank == rank) return true;
  for (int queue = 0; queue < num_queues(); ++queue) {
    int end = last_of_queue_[rank * num_queues() + queue];
    if (end >= 0 && Before(node, end)) return true;
  }
  return false;
}

}  // namespace asyra
