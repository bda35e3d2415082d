#include "executor/comm/shared_world.h"

#include <algorithm>
#include <thread>

#include "executor/comm/rank_error.h"

namespace asyra {

SharedWorld::SharedWorld(int64_t ranks, const ThreadWorldOptions& options)
    : options_(options),
      size_(ranks),
      steps_(ranks),
      gathered_(ranks),
      present_(ranks),
      plans_(ranks) {}

void SharedWorld::Abort(int64_t rank, const absl::Status& cause) {
  {
    std::lock_guard lock(mutex_);
    if (failed_rank_ >= 0) return;
    failed_rank_ = rank;
    cause_ = cause;
    aborted_.store(true);
  }
  changed_.notify_all();
}

absl::Status SharedWorld::CauseFor(int64_t rank) const {
  std::lock_guard lock(mutex_);
  return CauseLocked(rank);
}

int64_t SharedWorld::failed_rank() const {
  std::lock_guard lock(mutex_);
  return failed_rank_;
}

std::vector<int64_t> SharedWorld::RanksBehind(int64_t rank) const {
  std::vector<int64_t> behind;
  for (int64_t r = 0; r < size_; ++r) {
    if (steps_[r].load() < steps_[rank].load()) behind.push_back(r);
  }
  return behind;
}

absl::Status SharedWorld::WaitedTooLong(
    int64_t rank, std::string_view what,
    const std::vector<int64_t>& ranks) const {
  std::vector<int64_t> behind = RanksBehind(rank);
  return behind.empty() ? DidNotCome(what, ranks, options_.timeout_s)
                        : DidNotBegin(what, behind, options_.timeout_s);
}

absl::StatusOr<std::vector<std::string>> SharedWorld::Exchange(
    int64_t rank, std::string_view mine) {
  std::unique_lock lock(mutex_);
  uint64_t round = round_;
  gathered_[rank] = std::string(mine);
  present_[rank] = true;
  if (std::count(present_.begin(), present_.end(), true) == size_) {
    result_ = gathered_;
    present_.assign(size_, false);
    ++round_;
    changed_.notify_all();
    return result_;
  }
  bool done = changed_.wait_for(lock, Seconds(options_.timeout_s), [&] {
    return round_ != round || failed_rank_ >= 0;
  });
  if (round_ != round) return result_;
  if (done) return CauseLocked(rank);
  std::vector<int64_t> missing;
  for (int64_t r = 0; r < size_; ++r) {
    if (!present_[r]) missing.push_back(r);
  }
  return NothingHeard(missing, options_.timeout_s);
}

ThreadGroup* SharedWorld::FindGroup(const std::string& axes,
                                    const std::vector<int64_t>& members) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<ThreadGroup>& group = groups_[{axes, members}];
  if (group == nullptr) group = std::make_unique<ThreadGroup>(members);
  return group.get();
}

std::shared_ptr<PlanBoard> SharedWorld::JoinPlan(
    int64_t rank, const std::vector<int64_t>& members, size_t signals,
    size_t exchanges) {
  std::lock_guard lock(mutex_);
  std::pair<int64_t, std::vector<int64_t>> key(plans_[rank]++, members);
  std::shared_ptr<PlanBoard>& kept = boards_[key];
  if (kept == nullptr) {
    kept = std::make_shared<PlanBoard>(members.size(), signals, exchanges);
  }
  std::shared_ptr<PlanBoard> board = kept;
  if (++board->joined == members.size()) boards_.erase(key);
  return board;
}

void SharedWorld::Drain() const {
  while (aborted() && reaching_.load() > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

absl::Status SharedWorld::CauseLocked(int64_t rank) const {
  if (rank == failed_rank_) return cause_;
  return RankFailed(failed_rank_, cause_);
}

}  // namespace asyra
