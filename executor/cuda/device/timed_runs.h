// Times what a kernel is chosen by when it is prepared: runs on a stream of
// their own, each between two events.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "executor/cuda/device/cuda_status.h"

namespace asyra::cuda {

class TimedRuns {
 public:
  // Enqueues one run on stream().
  using Enqueue = absl::FunctionRef<absl::Status()>;

  TimedRuns() = default;
  TimedRuns(const TimedRuns&) = delete;
  TimedRuns& operator=(const TimedRuns&) = delete;
  ~TimedRuns();

  // Prepares runs on the current GPU; called once and before all else.
  absl::Status Prepare();
  // It does not wait for CUDA's default stream.
  cudaStream_t stream() const { return stream_; }

  // Returns when the run has ended.
  absl::Status Once(Enqueue enqueue) const;
  // Returns the median of a few runs, after one that warms up and loads
  // modules.
  absl::StatusOr<double> MedianMs(Enqueue enqueue) const;
  // Returns the mean of runs without gaps, after as many that set the clock: a
  // GPU at its power limit lowers it, by how much depends on what runs. Long
  // kernels that are fastest on a GPU that was idle are often not so then. A
  // run takes about `run_ms`; all together about 0.1 s.
  absl::StatusOr<double> UnderLoadMs(double run_ms, Enqueue enqueue) const;

 private:
  // Returns the mean of as many runs as take about `ms`.
  absl::StatusOr<double> BurstMs(double ms, double run_ms,
                                 Enqueue enqueue) const;

  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace asyra::cuda
