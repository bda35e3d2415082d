#include "executor/cuda/device/timed_runs.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ir/support/median.h"
#include "ir/support/status.h"

namespace asyra::cuda {
namespace {

constexpr int kTimedRuns = 5;
// A clock follows the load within some tens of ms.
constexpr double kLoadMs = 40, kTimedMs = 60;

}  // namespace

TimedRuns::~TimedRuns() {
  if (begin_ != nullptr) cudaEventDestroy(begin_);
  if (end_ != nullptr) cudaEventDestroy(end_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

absl::Status TimedRuns::Prepare() {
  ASYRA_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  ASYRA_CUDA(cudaEventCreate(&begin_));
  ASYRA_CUDA(cudaEventCreate(&end_));
  return absl::OkStatus();
}

absl::Status TimedRuns::Once(Enqueue enqueue) const {
  ASYRA_CUDA(cudaEventRecord(begin_, stream_));
  ASYRA_RETURN_IF_ERROR(enqueue());
  ASYRA_CUDA(cudaEventRecord(end_, stream_));
  ASYRA_CUDA(cudaStreamSynchronize(stream_));
  return absl::OkStatus();
}

absl::StatusOr<double> TimedRuns::MedianMs(Enqueue enqueue) const {
  ASYRA_RETURN_IF_ERROR(Once(enqueue));
  std::vector<double> times;
  for (int i = 0; i < kTimedRuns; ++i) {
    ASYRA_RETURN_IF_ERROR(Once(enqueue));
    float ms = 0;
    ASYRA_CUDA(cudaEventElapsedTime(&ms, begin_, end_));
    times.push_back(ms);
  }
  return Median(std::move(times));
}

absl::StatusOr<double> TimedRuns::BurstMs(double ms, double run_ms,
                                          Enqueue enqueue) const {
  int runs = std::max(1, static_cast<int>(std::ceil(ms / run_ms)));
  auto burst = [&]() -> absl::Status {
    for (int i = 0; i < runs; ++i) ASYRA_RETURN_IF_ERROR(enqueue());
    return absl::OkStatus();
  };
  ASYRA_RETURN_IF_ERROR(Once(burst));
  float took_ms = 0;
  ASYRA_CUDA(cudaEventElapsedTime(&took_ms, begin_, end_));
  return took_ms / runs;
}

absl::StatusOr<double> TimedRuns::UnderLoadMs(double run_ms,
                                              Enqueue enqueue) const {
  ASYRA_RETURN_IF_ERROR(BurstMs(kLoadMs, run_ms, enqueue).status());
  return BurstMs(kTimedMs, run_ms, enqueue);
}

}  // namespace asyra::cuda
