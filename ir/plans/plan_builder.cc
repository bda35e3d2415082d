#include "ir/plans/plan_builder.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "fmt/format.h"
#include "ir/support/alignment.h"
#include "ir/support/round_up.h"

namespace asyra {

PlanBuffer BufferOfValue(const GroupBody& group, int value, int rank) {
  const Body& body = group.body;
  PlanBuffer buffer;
  auto result = absl::c_find(body.results, value);
  if (value < body.num_operands) {
    buffer.role = PlanBuffer::kOperand;
    buffer.index = value;
  } else if (result != body.results.end()) {
    buffer.role = PlanBuffer::kResult;
    buffer.index = static_cast<int>(result - body.results.begin());
  }
  buffer.value = value;
  buffer.box = BoxOf(group.types[value], rank, group.ranks);
  buffer.summands = group.types[value].partial.empty() ? AllRanks(group.ranks)
                                                       : OnlyRank(rank);
  return buffer;
}

int AddPlanBuffer(int rank, PlanBuffer buffer, int64_t* used, ChunkPlan* plan) {
  std::vector<PlanBuffer>& buffers = plan->buffers[rank];
  if (buffer.role == PlanBuffer::kScratch && buffer.offset < 0) {
    buffer.offset = *used;
    *used += RoundUp(BytesOf(*plan, buffer), kWorkspaceAlignment);
    plan->workspace_bytes = std::max(plan->workspace_bytes, *used);
  }
  buffers.push_back(std::move(buffer));
  return static_cast<int>(buffers.size()) - 1;
}

PlanBuilder::PlanBuilder(const GroupBody& group, const PlanShape& shape,
                         const PlanWalk& walk)
    : group_(group), shape_(shape), walk_(walk) {
  plan_.ranks = ranks();
  plan_.body = body();
  plan_.types = group.types;
  plan_.queues.push_back({"compute", true});
  if (shape.exchanges) plan_.queues.push_back({"library", false});
  for (int k = 0; k < CopyQueues() && !shape.exchanges; ++k) {
    plan_.queues.push_back({fmt::format("copy {}", k), false});
  }
  plan_.steps.resize(ranks());
  plan_.buffers.resize(ranks());
  arrivals_.resize(ranks());
  acks_.resize(ranks());
  buffer_of_.assign(ranks(), std::vector<int>(body().num_values(), -1));
  for (int r = 0; r < ranks(); ++r) MakeBuffers(r);
}

int PlanBuilder::CopyQueues() const {
  if (shape_.exchanges) return 1;
  if (shape_.route == PlanRoute::kRing) return 1;
  if (shape_.route == PlanRoute::kTwoLevels) return 2;
  return static_cast<int>(std::min<int64_t>(shape_.copy_queues, ranks() - 1));
}

void PlanBuilder::MakeBuffers(int rank) {
  for (int v = 0; v < body().num_values(); ++v) {
    buffer_of_[rank][v] = AddBuffer(rank, BufferOfValue(group_, v, rank));
  }
}

int PlanBuilder::AddBuffer(int rank, PlanBuffer buffer) {
  int made = AddPlanBuffer(rank, std::move(buffer), &used_[rank], &plan_);
  arrivals_[rank].resize(plan_.buffers[rank].size());
  return made;
}

int PlanBuilder::SignalOf(int from, int from_queue, int to, int to_queue,
                          Use use) {
  auto [at, added] =
      signal_of_.try_emplace({from, from_queue, to, to_queue, use},
                             static_cast<int>(plan_.signals.size()));
  if (added) {
    constexpr const char* kNames[] = {"ready", "done", "came", "read"};
    plan_.signals.push_back({from, from_queue, to, to_queue, kNames[use]});
    posted_.push_back(0);
    awaited_.push_back(0);
  }
  return at->second;
}

PlanBuilder::Mark PlanBuilder::Post(int from, int from_queue, int to,
                                    int to_queue, Use use) {
  Mark mark{SignalOf(from, from_queue, to, to_queue, use), 0};
  mark.count = ++posted_[mark.signal];
  plan_.steps[from].push_back({.kind = PlanStep::kPost,
                               .queue = from_queue,
                               .signal = mark.signal,
                               .count = mark.count});
  return mark;
}

void PlanBuilder::Wait(int rank, int queue, Mark mark) {
  if (awaited_[mark.signal] >= mark.count) return;
  awaited_[mark.signal] = mark.count;
  plan_.steps[rank].push_back({.kind = PlanStep::kWait,
                               .queue = queue,
                               .signal = mark.signal,
                               .count = mark.count});
}

void PlanBuilder::WaitReady(int rank, int queue, int owner) {
  if (rank == owner) return;
  int signal = SignalOf(owner, kComputeQueue, rank, queue, kReady);
  if (posted_[signal] == 0) {
    posted_[signal] = 1;
    auto& steps = plan_.steps[owner];
    steps.insert(steps.begin(), PlanStep{.kind = PlanStep::kPost,
                                         .queue = kComputeQueue,
                                         .signal = signal,
                                         .count = 1});
  }
  Wait(rank, queue, {signal, 1});
}

int PlanBuilder::QueueTo(int rank, int peer) const {
  int n = ranks();
  return 1 + (((peer - rank + n) % n - 1 + n) % n) % CopyQueues();
}

void PlanBuilder::Copy(const Source& source, int to, int buffer, const Box& box,
                       int queue, int forwards) {
  if (box.elements() == 0) return;
  if (shape_.exchanges && source.rank != to) {
    return Send(source, to, buffer, box);
  }
  bool pull = shape_.route == PlanRoute::kPull && source.rank != to;
  int actor = pull ? to : source.rank;
  if (source.computed) {
    Mark done = Post(source.rank, kComputeQueue, actor, queue, kDone);
    Wait(actor, queue, done);
  } else if (source.came.signal >= 0) {
    Wait(actor, queue, source.came);
  }
  // The mark of a computed source tells that the rank's op has begun.
  if (!pull || !source.computed) {
    WaitReady(actor, queue, pull ? source.rank : to);
  }
  plan_.steps[actor].push_back({.kind = PlanStep::kCopy,
                                .queue = queue,
                                .reads = {{source.rank, source.buffer, box}},
                                .write = {to, buffer, box}});
  Arrival arrival{box, Post(actor, queue, to, kComputeQueue, kArrived), {}};
  if (forwards >= 0) {
    arrival.forward = Post(actor, queue, to, forwards, kArrived);
  }
  arrivals_[to][buffer].push_back(arrival);
  if (pull) {
    acks_[source.rank].push_back(
        Post(actor, queue, source.rank, kComputeQueue, kAck));
  }
}

void PlanBuilder::Send(const Source& source, int to, int buffer,
                       const Box& box) {
  messages_.push_back({source, {to, buffer, box}});
  arrivals_[to][buffer].push_back({.box = box, .comes_next = true});
}

void PlanBuilder::Exchange() {
  if (messages_.empty()) return;
  ++exchanges_;
  std::set<int> ranks, receivers;
  for (const Message& message : messages_) {
    ranks.insert(message.source.rank);
    receivers.insert(message.write.rank);
  }
  ranks.insert(receivers.begin(), receivers.end());
  for (int rank : ranks) AddExchangeStep(rank);
  for (int rank : receivers) {
    Mark came = Post(rank, kLibraryQueue, rank, kComputeQueue, kArrived);
    for (auto& of_buffer : arrivals_[rank]) {
      for (Arrival& arrival : of_buffer) {
        if (!std::exchange(arrival.comes_next, false)) continue;
        arrival.compute = came;
      }
    }
  }
  messages_.clear();
}

void PlanBuilder::AddExchangeStep(int rank) {
  PlanStep step{
      .kind = PlanStep::kExchange, .queue = kLibraryQueue, .count = exchanges_};
  bool computed = false;
  for (const Message& message : messages_) {
    const Source& source = message.source;
    if (source.rank != rank) continue;
    computed |= source.computed;
    step.reads.push_back({rank, source.buffer, message.write.box});
    step.writes.push_back(message.write);
  }
  if (computed) {
    Wait(rank, kLibraryQueue,
         Post(rank, kComputeQueue, rank, kLibraryQueue, kDone));
  }
  plan_.steps[rank].push_back(std::move(step));
}

PlanBuilder::Mark PlanBuilder::CameTo(int rank, int value,
                                      const Box& box) const {
  for (const Arrival& arrival : arrivals_[rank][buffer_of_[rank][value]]) {
    if (arrival.box.Contains(box)) return arrival.forward;
  }
  return {};
}

// A later count of a signal is a wait for the earlier ones too.
void PlanBuilder::WaitForAll(int rank, absl::Span<const Mark> marks) {
  std::map<int, int> counts;
  for (Mark mark : marks) {
    int& count = counts[mark.signal];
    count = std::max(count, mark.count);
  }
  for (auto [signal, count] : counts) {
    Wait(rank, kComputeQueue, {signal, count});
  }
}

void PlanBuilder::Need(int rank, int buffer, const Box& box) {
  std::vector<Mark> marks;
  for (const Arrival& arrival : arrivals_[rank][buffer]) {
    if (!Overlap(arrival.box, box)) continue;
    if (arrival.comes_next) Exchange();
    marks.push_back(arrival.compute);
  }
  WaitForAll(rank, marks);
}

void PlanBuilder::AddPiece(int op, int rank, std::vector<PlanRegion> reads,
                           const Box& box) {
  plan_.steps[rank].push_back(
      {.kind = PlanStep::kPiece,
       .queue = kComputeQueue,
       .op = op,
       .reads = std::move(reads),
       .write = {rank, BufferOf(rank, ValueOf(op)), box}});
}

void PlanBuilder::AddPieceAndSum(int op, int rank,
                                 std::vector<PlanRegion> reads, int added,
                                 int to, const Box& box) {
  Need(rank, added, box);
  reads.push_back({rank, added, box});
  AddPiece(op, rank, std::move(reads), box);
  plan_.steps[rank].back().write.buffer = to;
}

void PlanBuilder::AddSum(int rank, const std::vector<int>& buffers, int to,
                         const Box& box) {
  PlanStep step{.kind = PlanStep::kSum, .queue = kComputeQueue};
  for (int buffer : buffers) {
    Need(rank, buffer, box);
    step.reads.push_back({rank, buffer, box});
  }
  step.write = {rank, to, box};
  plan_.steps[rank].push_back(std::move(step));
}

ChunkPlan PlanBuilder::Finish() {
  Exchange();
  for (int r = 0; r < ranks(); ++r) {
    std::vector<Mark> marks = acks_[r];
    for (const auto& of_buffer : arrivals_[r]) {
      for (const Arrival& arrival : of_buffer) {
        marks.push_back(arrival.compute);
      }
    }
    WaitForAll(r, marks);
    DropImpliedWaits(&plan_.steps[r]);
  }
  return std::move(plan_);
}

void PlanBuilder::DropImpliedWaits(std::vector<PlanStep>* steps) const {
  // By queue, the signals awaited next, before any other step.
  std::vector<std::set<int>> next(plan_.queues.size());
  std::vector<PlanStep> kept;
  for (auto step = steps->rbegin(); step != steps->rend(); ++step) {
    if (step->kind != PlanStep::kWait) {
      next[step->queue].clear();
    } else if (!next[step->queue].insert(step->signal).second) {
      continue;
    }
    kept.push_back(std::move(*step));
  }
  steps->assign(std::make_move_iterator(kept.rbegin()),
                std::make_move_iterator(kept.rend()));
}

PlanHosts::PlanHosts(const PlanBuilder& builder) {
  if (builder.shape().route != PlanRoute::kTwoLevels) return;
  inner = static_cast<int>(builder.shape().inner);
  hosts = builder.ranks() / inner;
}

RankSet PlanHosts::Members(int host) const {
  RankSet set = 0;
  for (int j = 0; j < inner; ++j) set |= OnlyRank(RankAt(host, j));
  return set;
}

}  // namespace asyra
