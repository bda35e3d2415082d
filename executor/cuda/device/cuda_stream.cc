#include "executor/cuda/device/cuda_stream.h"

#include <chrono>
#include <thread>

#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// Waits up to this long by spinning, longer by sleeping between polls.
constexpr double kAwakeS = 0.002;
constexpr auto kNap = std::chrono::microseconds(50);
// Interval between calls of `check`.
constexpr double kCheckEveryS = 0.01;

}  // namespace

CudaEvent::CudaEvent(bool timed) : timed_(timed) {
  ASYRA_CHECK(cudaEventCreateWithFlags(
                  &event_, timed ? cudaEventDefault : cudaEventDisableTiming) ==
              cudaSuccess);
}

CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

double CudaEvent::UsSince(const Event& earlier) const {
  float ms = 0;
  cudaError_t error = cudaEventElapsedTime(
      &ms, static_cast<const CudaEvent&>(earlier).event_, event_);
  return error == cudaSuccess ? 1e3 * ms : 0;
}

absl::StatusOr<int> PriorityOf(StreamUse use) {
  int least = 0, greatest = 0;
  ASYRA_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  // Greater priorities are lower numbers.
  if (use == StreamUse::kCollectives) return greatest;
  return use == StreamUse::kCompute && greatest < least - 1 ? least - 1 : least;
}

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create(
    int ordinal, StreamUse use, ProbeResults* probe_results, Failure* failure) {
  std::unique_ptr<CudaStream> stream(
      new CudaStream(ordinal, probe_results, failure));
  ASYRA_ASSIGN_OR_RETURN(int priority, PriorityOf(use));
  ASYRA_CUDA(cudaStreamCreateWithPriority(&stream->stream_,
                                          cudaStreamNonBlocking, priority));
  return stream;
}

std::unique_ptr<CudaStream> CudaStream::Wrap(int ordinal, cudaStream_t stream,
                                             Failure* failure) {
  std::unique_ptr<CudaStream> wrapped(
      new CudaStream(ordinal, /*probe_results=*/nullptr, failure));
  wrapped->stream_ = stream;
  wrapped->is_wrapped_ = true;
  return wrapped;
}

CudaStream::~CudaStream() {
  if (stream_ == nullptr || is_wrapped_) return;
  OnGpu gpu(ordinal_);
  cudaStreamDestroy(stream_);
}

void CudaStream::Record(Event& event) {
  auto& at = static_cast<CudaEvent&>(event);
  // A time in a graph is an event that is recorded by each launch; others are
  // the edges of the graph.
  unsigned flags = capturing_ && at.timed_ ? cudaEventRecordExternal
                                           : cudaEventRecordDefault;
  absl::Status status = ToStatus(
      cudaEventRecordWithFlags(at.event_, stream_, flags), "cudaEventRecord");
  // The beginning of a recording is both.
  if (!status.ok()) Report(status);
}

void CudaStream::Wait(Event& event) {
  auto& at = static_cast<CudaEvent&>(event);
  absl::Status status =
      ToStatus(cudaStreamWaitEvent(stream_, at.event_), "cudaStreamWaitEvent");
  if (!status.ok()) Report(status);
}

absl::Status CudaStream::Synchronize(const WaitCheck& check) {
  return WaitUntil([this] { return cudaStreamQuery(stream_); }, check);
}

absl::Status CudaStream::SynchronizeUpTo(Event& event, const WaitCheck& check) {
  cudaEvent_t at = static_cast<CudaEvent&>(event).event_;
  return WaitUntil([at] { return cudaEventQuery(at); }, check);
}

absl::Status CudaStream::WaitUntil(const std::function<cudaError_t()>& query,
                                   const WaitCheck& check) {
  OnGpu gpu(ordinal_);
  auto begin = Clock::now();
  double checked_s = 0;
  while (true) {
    cudaError_t error = query();
    if (error == cudaSuccess) break;
    if (error != cudaErrorNotReady) return ToStatus(error, "waiting");
    double waited_s =
        std::chrono::duration<double>(Clock::now() - begin).count();
    if (check && waited_s - checked_s > kCheckEveryS) {
      checked_s = waited_s;
      ASYRA_RETURN_IF_ERROR(check(waited_s));
    }
    if (waited_s > kAwakeS) std::this_thread::sleep_for(kNap);
  }
  // After a failure of another rank, work that was released has ended without
  // its data.
  if (check) ASYRA_RETURN_IF_ERROR(check(0));
  if (probe_results_ == nullptr) return absl::OkStatus();
  absl::Status found = probe_results_->Take();
  if (!found.ok()) Report(found);
  return absl::OkStatus();
}

namespace {

class FunctionRecording : public Recording {
 public:
  explicit FunctionRecording(std::function<void()> enqueue)
      : enqueue_(std::move(enqueue)) {}
  void Replay() override { enqueue_(); }

 private:
  std::function<void()> enqueue_;
};

}  // namespace

class GraphRecording : public Recording {
 public:
  explicit GraphRecording(CudaStream* home) : home_(home) {}
  ~GraphRecording() override {
    OnGpu gpu(home_->ordinal());
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
  }

  absl::Status Capture(absl::Span<Stream* const> streams,
                       const std::function<void()>& enqueue) {
    OnGpu gpu(home_->ordinal());
    // Relaxed mode: other ranks' threads prepare at the same time, and NCCL may
    // allocate memory.
    ASYRA_CUDA(
        cudaStreamBeginCapture(home_->handle(), cudaStreamCaptureModeRelaxed));
    SetCapturing(streams, true);
    enqueue();
    SetCapturing(streams, false);
    cudaGraph_t graph = nullptr;
    absl::Status status = ToStatus(
        cudaStreamEndCapture(home_->handle(), &graph), "cudaStreamEndCapture");
    // The cause, of which the end of the capture is a consequence.
    if (home_->failure_->happened()) status = home_->failure_->status();
    if (status.ok()) {
      // Otherwise the whole graph would run with the priority of one stream.
      status =
          ToStatus(cudaGraphInstantiate(
                       &exec_, graph, cudaGraphInstantiateFlagUseNodePriority),
                   "cudaGraphInstantiate");
    }
    // NCCL's communicators end only after all graphs with their collectives.
    if (graph != nullptr) cudaGraphDestroy(graph);
    ASYRA_RETURN_IF_ERROR(status);
    ASYRA_CUDA(cudaGraphUpload(exec_, home_->handle()));
    return home_->Synchronize(nullptr);
  }

  void Replay() override {
    OnGpu gpu(home_->ordinal());
    absl::Status status =
        ToStatus(cudaGraphLaunch(exec_, home_->handle()), "cudaGraphLaunch");
    if (!status.ok()) home_->Report(status);
  }

 private:
  static void SetCapturing(absl::Span<Stream* const> streams, bool capturing) {
    for (Stream* stream : streams) {
      static_cast<CudaStream*>(stream)->capturing_ = capturing;
    }
  }

  CudaStream* home_;
  cudaGraphExec_t exec_ = nullptr;
};

std::unique_ptr<Recording> RecordFunction(std::function<void()> enqueue) {
  return std::make_unique<FunctionRecording>(std::move(enqueue));
}

absl::StatusOr<std::unique_ptr<Recording>> RecordGraph(
    absl::Span<Stream* const> streams, const std::function<void()>& enqueue) {
  auto graph =
      std::make_unique<GraphRecording>(static_cast<CudaStream*>(streams[0]));
  ASYRA_RETURN_IF_ERROR(graph->Capture(streams, enqueue));
  return graph;
}

}  // namespace asyra::cuda
