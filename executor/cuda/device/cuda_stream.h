// Streams and events of CUDA, and a step of many streams as one graph.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "executor/cuda/device/cuda_status.h"
#include "executor/cuda/device/probe_results.h"
#include "executor/failure.h"
#include "executor/stream.h"

namespace asyra::cuda {

class CudaEvent : public Event {
 public:
  explicit CudaEvent(bool timed);
  ~CudaEvent() override;
  double UsSince(const Event& earlier) const override;

 private:
  friend class CudaStream;
  cudaEvent_t event_ = nullptr;
  bool timed_;
};

// Returns the CUDA priority of a stream on the current GPU. Where there are
// only two priorities, self-copies and computation share one.
absl::StatusOr<int> PriorityOf(StreamUse use);

class CudaStream : public Stream {
 public:
  // `probe_results`, which may be null, and `failure` outlive it.
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create(
      int ordinal, StreamUse use, ProbeResults* probe_results,
      Failure* failure);
  // Wraps the caller's `stream`, which outlives it.
  static std::unique_ptr<CudaStream> Wrap(int ordinal, cudaStream_t stream,
                                          Failure* failure);
  ~CudaStream() override;

  void Record(Event& event) override;
  void Wait(Event& event) override;
  absl::Status Synchronize(const WaitCheck& check) override;
  absl::Status SynchronizeUpTo(Event& event, const WaitCheck& check) override;

  int ordinal() const { return ordinal_; }
  cudaStream_t handle() const { return stream_; }
  // Reports an error of enqueueing.
  void Report(const absl::Status& status) { failure_->Report(status); }

 private:
  friend class GraphRecording;
  CudaStream(int ordinal, ProbeResults* probe_results, Failure* failure)
      : ordinal_(ordinal), probe_results_(probe_results), failure_(failure) {}

  // Waits until `query` says that the GPU is done.
  absl::Status WaitUntil(const std::function<cudaError_t()>& query,
                         const WaitCheck& check);

  int ordinal_;
  ProbeResults* probe_results_;
  Failure* failure_;
  cudaStream_t stream_ = nullptr;
  bool is_wrapped_ = false;
  bool capturing_ = false;
};

// Keeps `enqueue` itself: each replay launches op by op.
std::unique_ptr<Recording> RecordFunction(std::function<void()> enqueue);

// Captures what it enqueues as a graph, launched on the first of the streams.
absl::StatusOr<std::unique_ptr<Recording>> RecordGraph(
    absl::Span<Stream* const> streams, const std::function<void()>& enqueue);

}  // namespace asyra::cuda
