// State that the ranks of a thread world share: who has failed, how far each
// is, the bytes that they exchange, and the groups of their collectives.
// Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "executor/comm/thread_world.h"
#include "executor/cpu/counter.h"

namespace asyra {

class ThreadCollective;

// Time in which a waiting rank notices that another has failed.
inline constexpr auto kNoticeEvery = std::chrono::milliseconds(20);

inline CpuClock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<CpuClock::duration>(
      std::chrono::duration<double>(seconds));
}

// Ranks that carry out collectives together.
struct ThreadGroup {
  // Data of one member that the others read.
  struct alignas(64) Seat {
    absl::Span<void*const> operands, results;
    const ThreadCollective* collective = nullptr;
    std::atomic<uint32_t> meetings{0};
  };

  explicit ThreadGroup(std::vector<int64_t> ranks)
      : members(std::move(ranks)), seats(members.size()) {}
  std::vector<int64_t> members;
  std::vector<Seat> seats;
  Counter arrivals;
  // Members that read the others' memory.
  std::atomic<int> reading{0};
};

// One member's part of an exchange of a plan.
struct ExchangeSeat {
  struct Message {
    int member = 0;  // to whom
    const void* data = nullptr;
  };
  std::vector<Message> sends;  // set before it comes for the first time
  Counter come, read;          // once in each step
};

// State that the members of one chunk plan share.
struct PlanBoard {
  PlanBoard(size_t members, size_t signals, size_t exchanges)
      : buffers(members), signals(signals), seats(exchanges) {
    for (std::vector<ExchangeSeat>& of_exchange : seats) {
      of_exchange = std::vector<ExchangeSeat>(members);
    }
  }
  std::vector<std::vector<void*>> buffers;  // by member
  std::vector<Counter> signals;
  std::vector<std::vector<ExchangeSeat>> seats;  // by exchange and member
  size_t joined = 0;  // members, under the world's mutex
};

class SharedWorld {
 public:
  SharedWorld(int64_t ranks, const ThreadWorldOptions& options);

  int64_t size() const { return size_; }
  const ThreadWorldOptions& options() const { return options_; }

  // The first failure counts.
  void Abort(int64_t rank, const absl::Status& cause);
  bool aborted() const { return aborted_.load(); }
  // Returns the error of `rank` after an abort of the world.
  absl::Status CauseFor(int64_t rank) const;
  int64_t failed_rank() const;  // -1: none

  void BeginStep(int64_t rank) { steps_[rank].fetch_add(1); }
  std::vector<int64_t> RanksBehind(int64_t rank) const;
  // Returns the error of `rank`, whose op `what` has waited for `ranks` until
  // the timeout. These may wait themselves for a rank that is behind, which is
  // named instead.
  absl::Status WaitedTooLong(int64_t rank, std::string_view what,
                             const std::vector<int64_t>& ranks) const;

  // Communicator::Exchange of `rank`.
  absl::StatusOr<std::vector<std::string>> Exchange(int64_t rank,
                                                    std::string_view mine);

  // One for each list of axes and members, made by the first that asks.
  ThreadGroup* FindGroup(const std::string& axes,
                         const std::vector<int64_t>& members);

  // One for each plan of these members, which all join their plans in one
  // order.
  std::shared_ptr<PlanBoard> JoinPlan(int64_t rank,
                                      const std::vector<int64_t>& members,
                                      size_t signals, size_t exchanges);

  // Begins an access to the memory of another rank outside the barriers of
  // collectives; EndReach ends it. False: some rank has failed, and nothing may
  // be accessed.
  bool BeginReach() {
    reaching_.fetch_add(1);
    if (!aborted()) return true;
    EndReach();
    return false;
  }
  void EndReach() { reaching_.fetch_sub(1); }
  // Communicator::Drain: after an abort, waits for the accesses that had begun.
  void Drain() const;

 private:
  absl::Status CauseLocked(int64_t rank) const;

  const ThreadWorldOptions options_;
  const int64_t size_;
  std::atomic<bool> aborted_ = false;
  std::atomic<int> reaching_ = 0;
  std::vector<std::atomic<int64_t>> steps_;  // begun, by rank
  mutable std::mutex mutex_;                 // of what follows
  std::condition_variable changed_;
  int64_t failed_rank_ = -1;
  absl::Status cause_;
  uint64_t round_ = 0;
  std::vector<std::string> gathered_, result_;
  std::vector<bool> present_;
  std::map<std::pair<std::string, std::vector<int64_t>>,
           std::unique_ptr<ThreadGroup>>
      groups_;
  std::vector<int64_t> plans_;  // joined, by rank
  // Boards that not all members have joined, by their number on each of them.
  std::map<std::pair<int64_t, std::vector<int64_t>>, std::shared_ptr<PlanBoard>>
      boards_;
};

}  // namespace asyra
