#include "ir/plans/plan_clocks.h"

#include <algorithm>
#include <map>

#include "ir/support/status.h"

namespace asyra {

PlanClocks::PlanClocks(const ChunkPlan& plan, const PlanExchanges& exchanges,
                       int connections)
    : plan_(plan), exchanges_(exchanges), connections_(connections) {
  for (int r = 0; r < plan_.ranks; ++r) {
    first_node_.push_back(size());
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
  done_.assign(nodes_.size(), false);
  for (int n = 0; n < size(); ++n) LaneOf(n).nodes.push_back(n);
  size_t finished = 0;
  for (bool progress = true; progress;) {
    progress = false;
    for (auto& [key, lane] : lanes_) {
      size_t ran = RunLane(&lane);
      finished += ran;
      progress |= ran > 0;
    }
  }
  return finished == nodes_.size() ? absl::OkStatus() : Deadlock();
}

size_t PlanClocks::RunLane(Lane* lane) {
  size_t ran = 0;
  while (lane->next < lane->nodes.size()) {
    int node = lane->nodes[lane->next];
    if (StepOf(node).kind == PlanStep::kExchange) {
      std::vector<int> parts = ReadyExchange(StepOf(node).count);
      if (parts.empty()) break;
      Run(parts);
      ran += parts.size();
      continue;
    }
    if (!CanRun(node)) break;
    Run(node);
    ++ran;
  }
  return ran;
}

// Some step waits for a signal: of the exchanges that ranks have come to, the
// first one could run.
absl::Status PlanClocks::Deadlock() const {
  for (const auto& [key, lane] : lanes_) {
    if (lane.next == lane.nodes.size()) continue;
    int node = lane.nodes[lane.next];
    const PlanStep& step = StepOf(node);
    if (step.kind == PlanStep::kExchange) continue;
    int post = post_of_[step.signal][step.count - 1];
    return At(node, Invalid("a deadlock: it waits for {}, which waits "
                            "for this in the end",
                            Name(post)));
  }
  return Invalid("a deadlock");
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

bool PlanClocks::CanRun(int node) const {
  const PlanStep& step = StepOf(node);
  return step.kind != PlanStep::kWait ||
         done_[post_of_[step.signal][step.count - 1]];
}

std::vector<int> PlanClocks::ReadyExchange(int number) const {
  std::vector<int> nodes;
  for (const PlanExchanges::Part& part : exchanges_.Parts(number)) {
    int node = NodeOf(part);
    const Lane& lane = LaneOf(node);
    if (lane.nodes[lane.next] != node) return {};
    nodes.push_back(node);
  }
  return nodes;
}

// A rank's call returns after those who send to it have come.
void PlanClocks::Run(absl::Span<const int> exchange) {
  std::map<int, int> before;  // by rank, the last step on its queue
  for (int node : exchange) before[RankOf(node)] = last_of_queue_[Slot(node)];
  for (int node : exchange) {
    if (before[RankOf(node)] >= 0) Join(before[RankOf(node)], node);
    for (int sender : exchanges_.SendersTo(RankOf(node), StepOf(node).count)) {
      if (before[sender] >= 0) Join(before[sender], node);
    }
    Pass(node);
  }
}

void PlanClocks::Run(int node) {
  const PlanStep& step = StepOf(node);
  int last = last_of_queue_[Slot(node)];
  if (last >= 0) Join(last, node);
  if (step.kind == PlanStep::kWait) {
    Join(post_of_[step.signal][step.count - 1], node);
  }
  Pass(node);
}

void PlanClocks::Join(int earlier, int node) {
  for (size_t s = 0; s < clock_[node].size(); ++s) {
    clock_[node][s] = std::max(clock_[node][s], clock_[earlier][s]);
  }
}

void PlanClocks::Pass(int node) {
  int slot = Slot(node);
  position_[node] = ++passed_[slot];
  clock_[node][slot] = position_[node];
  last_of_queue_[slot] = node;
  done_[node] = true;
  ++LaneOf(node).next;
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
