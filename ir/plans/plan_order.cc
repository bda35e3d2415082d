#include "ir/plans/plan_order.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <tuple>

#include "absl/algorithm/container.h"
#include "ir/support/alignment.h"
#include "ir/support/round_up.h"

namespace asyra {
namespace {

class Ordering {
 public:
  explicit Ordering(ChunkPlan* plan) : plan_(*plan) {}

  void Run() {
    OrderScratch();
    for (int r = 0; r < plan_.ranks; ++r) OrderRuns(r, PlanStep::kWait);
    FindWaits();
    for (int r = 0; r < plan_.ranks; ++r) OrderRuns(r, PlanStep::kPost);
  }

 private:
  int FromHere(int rank, int here) const {
    return (rank - here + plan_.ranks) % plan_.ranks;
  }

  // The place of a buffer among those of its rank: its value, how many
  // summands it has, where it begins, and whose summands.
  using BufferKey = std::tuple<int, int, Shape, RankSet>;

  BufferKey KeyOf(const PlanBuffer& buffer, int rank) const {
    Shape start;
    for (int d = 0; d < buffer.box.rank(); ++d) {
      int64_t total = plan_.types[buffer.value].size(d);
      int64_t own = rank * (total / plan_.ranks);
      start.push_back((buffer.box.start[d] - own + total) % total);
    }
    RankSet summands = 0;  // from this rank on
    for (int k = 0; k < plan_.ranks; ++k) {
      bool has = (buffer.summands & OnlyRank((rank + k) % plan_.ranks)) != 0;
      if (has) summands |= OnlyRank(k);
    }
    return {buffer.value, std::popcount(summands), start, summands};
  }

  void OrderScratch() {
    std::vector<std::vector<int>> number(plan_.ranks);  // by rank, new ones
    plan_.workspace_bytes = 0;
    auto values = static_cast<size_t>(plan_.body.num_values());
    for (int r = 0; r < plan_.ranks; ++r) {
      std::vector<PlanBuffer>& buffers = plan_.buffers[r];
      std::vector<int> order(buffers.size());
      std::iota(order.begin(), order.end(), 0);
      std::vector<BufferKey> keys;
      for (const PlanBuffer& buffer : buffers) {
        keys.push_back(KeyOf(buffer, r));
      }
      std::stable_sort(order.begin() + static_cast<ptrdiff_t>(values),
                       order.end(),
                       [&](int a, int b) { return keys[a] < keys[b]; });
      std::vector<PlanBuffer> ordered;
      number[r].resize(buffers.size());
      for (int index : order) {
        number[r][index] = static_cast<int>(ordered.size());
        ordered.push_back(std::move(buffers[index]));
      }
      buffers = std::move(ordered);
      PlaceScratch(&buffers);
    }
    for (std::vector<PlanStep>& steps : plan_.steps) {
      for (PlanStep& step : steps) {
        for (PlanRegion& read : step.reads) {
          read.buffer = number[read.rank][read.buffer];
        }
        for (PlanRegion& write : step.writes) {
          write.buffer = number[write.rank][write.buffer];
        }
        bool writes_one = step.kind == PlanStep::kPiece ||
                          step.kind == PlanStep::kCopy ||
                          step.kind == PlanStep::kSum;
        if (!writes_one) continue;
        step.write.buffer = number[step.write.rank][step.write.buffer];
      }
    }
  }

  // Offsets in the order of buffers.
  void PlaceScratch(std::vector<PlanBuffer>* buffers) {
    std::map<int64_t, int64_t> bytes, place;  // by offset before
    for (const PlanBuffer& buffer : *buffers) {
      if (buffer.role != PlanBuffer::kScratch) continue;
      int64_t& most = bytes[buffer.offset];
      most = std::max(most, BytesOf(plan_, buffer));
    }
    int64_t used = 0;
    for (PlanBuffer& buffer : *buffers) {
      if (buffer.role != PlanBuffer::kScratch) continue;
      auto [at, added] = place.try_emplace(buffer.offset, used);
      if (added) used += RoundUp(bytes[buffer.offset], kWorkspaceAlignment);
      buffer.offset = at->second;
    }
    plan_.workspace_bytes = std::max(plan_.workspace_bytes, used);
  }

  // Counts, for each post, the steps that come before its wait on its queue.
  void FindWaits() {
    waits_.resize(plan_.signals.size());
    for (const std::vector<PlanStep>& steps : plan_.steps) {
      std::vector<int> before(plan_.queues.size(), 0);
      for (const PlanStep& step : steps) {
        int position = before[step.queue]++;
        if (step.kind != PlanStep::kWait) continue;
        std::vector<int>& waits = waits_[step.signal];
        while (static_cast<int>(waits.size()) < step.count) {
          waits.push_back(position);
        }
      }
    }
  }

  std::tuple<int, int, int, std::string> KeyOf(const PlanStep& step,
                                               int rank) const {
    const PlanSignal& signal = plan_.signals[step.signal];
    if (step.kind == PlanStep::kWait) {
      return {0, FromHere(signal.from_rank, rank), signal.from_queue,
              signal.name};
    }
    const std::vector<int>& waits = waits_[step.signal];
    bool awaited = step.count <= static_cast<int>(waits.size());
    return {awaited ? waits[step.count - 1] : 0, FromHere(signal.to_rank, rank),
            signal.to_queue, signal.name};
  }

  // Orders the steps of one kind that follow each other on a queue.
  void OrderRuns(int rank, PlanStep::Kind kind) {
    std::vector<PlanStep>& steps = plan_.steps[rank];
    for (size_t queue = 0; queue < plan_.queues.size(); ++queue) {
      std::vector<size_t> run;
      auto order = [&] {
        std::vector<PlanStep> ordered;
        if (run.size() == 1) run.clear();
        for (size_t at : run) ordered.push_back(std::move(steps[at]));
        absl::c_stable_sort(ordered, [&](const auto& a, const auto& b) {
          return KeyOf(a, rank) < KeyOf(b, rank);
        });
        for (size_t k = 0; k < run.size(); ++k) {
          steps[run[k]] = std::move(ordered[k]);
        }
        run.clear();
      };
      for (size_t i = 0; i < steps.size(); ++i) {
        if (steps[i].queue != static_cast<int>(queue)) continue;
        if (steps[i].kind == kind) {
          run.push_back(i);
        } else {
          order();
        }
      }
      order();
    }
  }

  ChunkPlan& plan_;
  std::vector<std::vector<int>> waits_;  // by signal and count
};

}  // namespace

void OrderAlike(ChunkPlan* plan) { Ordering(plan).Run(); }

}  // namespace asyra
