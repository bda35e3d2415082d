#include "executor/cuda/device/timed_runs.h"

#include <vector>

#include "ir/support/median.h"
#include "ir/support/status.h"

namespace asyra::cuda {
namespace {

constexpr int kTimedRuns = 5;

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

}  // namespace asyra::cuda
