// What the ranks of a thread world share: who has failed, how far each is, the
// bytes that they exchange, and the groups that collectives meet in.
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

class SharedWorld {
 public:
  SharedWorld(int64_t ranks, const ThreadWorldOptions& options);

  int64_t size() const { return size_; }
  const ThreadWorldOptions& options() const { return options_; }

  // The first failure counts.
  void Abort(int64_t rank, const absl::Status& cause);
  bool aborted() const { return aborted_.load(); }
  // The error of `rank` after an abort of the world.
  absl::Status CauseFor(int64_t rank) const;
  int64_t failed_rank() const;  // -1: none

  void BeginStep(int64_t rank) { steps_[rank].fetch_add(1); }
  std::vector<int64_t> RanksBehind(int64_t rank) const;

  // Communicator::Exchange of `rank`.
  absl::StatusOr<std::vector<std::string>> Exchange(int64_t rank,
                                                    std::string_view mine);

  // One for each list of axes and members, made by the first that asks.
  ThreadGroup* FindGroup(const std::string& axes,
                         const std::vector<int64_t>& members);

 private:
  absl::Status CauseLocked(int64_t rank) const;

  const ThreadWorldOptions options_;
  const int64_t size_;
  std::atomic<bool> aborted_ = false;
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
};

}  // namespace asyra
