// Joint teardown, after a failure, of ranks that are threads of one process.
// CUDA frees memory only when no kernel runs on a GPU that can access it, and
// blocks calls of other threads meanwhile. A rank that freed its memory at once
// would wait for a kernel that waits for this very rank, and would keep that
// kernel's host from noticing the failure. And a kernel that is enqueued but
// has not begun would then access memory that is gone.
#pragma once

#include <atomic>
#include <memory>

#include "executor/comm/communicator.h"

namespace asyra::cuda {

class JointTeardown {
 public:
  explicit JointTeardown(int64_t ranks) : ranks_(ranks) {}

  // Shared by the ranks of `control`, which all call it; null where they are
  // not all of one process. Errors: those of the exchange.
  static absl::StatusOr<std::shared_ptr<JointTeardown>> Join(
      Communicator& control);

  // This rank knows of the failure, or has ended. Called once by each rank.
  void Leave() { ++left_; }
  // Returns whether all ranks have left within so many seconds.
  bool Wait(double timeout_s) const { return Wait(left_, timeout_s); }

  // Says that nothing that this rank has enqueued accesses memory of others any
  // more. Called once by each rank, after Leave.
  void Rest() { ++resting_; }
  // Returns whether all ranks rest within so many seconds.
  bool WaitForRest(double timeout_s) const { return Wait(resting_, timeout_s); }

 private:
  bool Wait(const std::atomic<int64_t>& come, double timeout_s) const;

  const int64_t ranks_;
  std::atomic<int64_t> left_ = 0, resting_ = 0;
};

}  // namespace asyra::cuda
