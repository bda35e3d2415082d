#include "executor/cuda/comm/copy_plan.h"

#include <map>

#include "absl/container/inlined_vector.h"
#include "executor/cuda/codegen/generated_kernel.h"
#include "executor/cuda/comm/peer_copy.h"
#include "executor/cuda/comm/strided_copies.h"
#include "executor/cuda/device/cuda_stream.h"

namespace asyra::cuda {
namespace {

class CudaAction : public PlanAction {
 public:
  explicit CudaAction(std::string label) : label_(std::move(label)) {}
  void Enqueue(Stream& stream) final {
    auto& on = static_cast<CudaStream&>(stream);
    absl::Status status = EnqueueOn(on);
    if (!status.ok()) on.Report(Annotate(status, label_));
  }

 private:
  virtual absl::Status EnqueueOn(CudaStream& stream) = 0;

  std::string label_;
};

class CopyAction : public CudaAction {
 public:
  // A copy within a GPU is a kernel, as everywhere.
  CopyAction(std::string label, const BoxCopy& copy, bool by_engine)
      : CudaAction(std::move(label)),
        parts_(StridedCopiesOf(copy)),
        by_engine_(by_engine) {}

 private:
  absl::Status EnqueueOn(CudaStream& stream) override {
    for (const StridedCopyAt& part : parts_) {
      if (by_engine_) {
        ASYRA_RETURN_IF_ERROR(
            CopyByEngine(part.copy, part.from, part.to, stream.handle()));
      } else {
        ASYRA_CUDA(CopyStrided(part.copy, part.from, part.to, stream.handle()));
      }
    }
    return absl::OkStatus();
  }

  std::vector<StridedCopyAt> parts_;
  bool by_engine_;
};

class SumAction : public CudaAction {
 public:
  SumAction(std::string label, GeneratedKernel kernel, const DenseSum& sum)
      : CudaAction(std::move(label)), kernel_(kernel), to_(sum.to) {
    for (const void* part : sum.parts) {
      parts_.push_back(const_cast<void*>(part));
    }
  }

 private:
  absl::Status EnqueueOn(CudaStream& stream) override {
    return kernel_.Enqueue(parts_, {&to_, 1}, stream.handle());
  }

  GeneratedKernel kernel_;
  std::vector<void*> parts_;
  void* to_;
};

using SharedEvent = std::shared_ptr<CudaEvent>;

// Sends signals to other GPUs; the event is recorded behind them.
class RaiseAction : public CudaAction {
 public:
  RaiseAction(std::string label, PeerFlags& flags,
              std::vector<uint32_t*> theirs, SharedEvent raised)
      : CudaAction(std::move(label)),
        flags_(flags),
        theirs_(std::move(theirs)),
        raised_(std::move(raised)) {}

 private:
  absl::Status EnqueueOn(CudaStream& stream) override {
    ASYRA_RETURN_IF_ERROR(flags_.Raise(theirs_, stream.handle()));
    stream.Record(*raised_);
    return absl::OkStatus();
  }

  PeerFlags& flags_;
  std::vector<uint32_t*> theirs_;
  SharedEvent raised_;
};

// Waits for events of other queues first.
class AwaitAction : public CudaAction {
 public:
  AwaitAction(std::string label, PeerFlags& flags, std::vector<uint32_t*> mine,
              std::vector<SharedEvent> first)
      : CudaAction(std::move(label)),
        flags_(flags),
        mine_(std::move(mine)),
        first_(std::move(first)) {}

 private:
  absl::Status EnqueueOn(CudaStream& stream) override {
    for (const SharedEvent& event : first_) stream.Wait(*event);
    return flags_.Await(mine_, stream.handle());
  }

  PeerFlags& flags_;
  std::vector<uint32_t*> mine_;
  std::vector<SharedEvent> first_;
};

// Records or awaits a signal between queues of this GPU.
class EventAction : public CudaAction {
 public:
  EventAction(std::string label, SharedEvent event, bool posts)
      : CudaAction(std::move(label)), event_(std::move(event)), posts_(posts) {}

 private:
  absl::Status EnqueueOn(CudaStream& stream) override {
    posts_ ? stream.Record(*event_) : stream.Wait(*event_);
    return absl::OkStatus();
  }

  SharedEvent event_;
  bool posts_;
};

class ExchangeAction : public CudaAction {
 public:
  ExchangeAction(std::string label, ExchangeCall call, ncclComm_t comm)
      : CudaAction(std::move(label)), call_(std::move(call)), comm_(comm) {}

 private:
  absl::Status EnqueueOn(CudaStream& stream) override {
    return ExchangeMessages(call_, comm_, stream.handle());
  }

  ExchangeCall call_;
  ncclComm_t comm_;
};

class CopyPlan : public PlanLink {
 public:
  CopyPlan(const PlanUse& use, CopyPlanOptions options)
      : options_(options),
        self_(use.self),
        members_(use.members),
        label_(use.label),
        signals_(use.plan.signals),
        first_flag_(signals_.size(), 0),
        posted_(signals_.size(), 0),
        awaited_(signals_.size(), 0) {
    std::vector<int64_t> posts(signals_.size(), 0);
    others_write_.assign(use.plan.buffers[self_].size(), false);
    for (int r = 0; r < use.plan.ranks; ++r) {
      for (const PlanStep& step : use.plan.steps[r]) {
        if (step.kind == PlanStep::kPost) ++posts[step.signal];
        if (step.kind == PlanStep::kCopy && step.write.rank == self_ &&
            r != self_) {
          others_write_[step.write.buffer] = true;
        }
      }
    }
    // For each GPU, the flags that it waits for, by signal and count.
    std::vector<int64_t> taken(use.plan.ranks, 0);
    for (size_t s = 0; s < signals_.size(); ++s) {
      if (IsLocal(s)) continue;
      first_flag_[s] = taken[signals_[s].to_rank];
      taken[signals_[s].to_rank] += posts[s];
    }
    num_flags_ = taken[self_];
  }

  absl::Status TakeFlags() {
    if (options_.flags == nullptr) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(uint32_t * flags, options_.flags->Take(num_flags_));
    flags_.assign(members_.size(), nullptr);
    flags_[self_] = flags;
    return absl::OkStatus();
  }

  // Exchanges only buffers that other ranks write: processes may be unable to
  // share the memory of others.
  absl::Status Connect(std::vector<void*> buffers) override {
    mine_ = buffers;
    if (options_.memory == nullptr) return absl::OkStatus();
    for (size_t b = 0; b < buffers.size(); ++b) {
      if (!others_write_[b]) buffers[b] = nullptr;
    }
    buffers.push_back(flags_[self_]);
    ASYRA_ASSIGN_OR_RETURN(buffers_,
                           options_.memory->Exchange(members_, buffers));
    for (size_t m = 0; m < members_.size(); ++m) {
      flags_[m] = static_cast<uint32_t*>(buffers_[m].back().address);
    }
    return absl::OkStatus();
  }

  void* AddressOf(int member, int buffer) const override {
    if (member == self_) return mine_[buffer];
    return buffers_[member][buffer].address;
  }

  Action Copy(const BoxCopy& copy, bool reaches) override {
    return std::make_unique<CopyAction>(label_, copy, reaches);
  }

  Action Exchange(const ExchangeCall& call) override {
    return std::make_unique<ExchangeAction>(label_, call, options_.comm);
  }

  Action Sum(const DenseSum& sum) override {
    OnGpu gpu(options_.ordinal);
    auto parts = static_cast<int64_t>(sum.parts.size());
    Loop loop{.rows = {}, .columns = {sum.elements}};
    Expression expression;
    expression.Store(expression.SumOfOperands(sum.dtype, parts), sum.dtype);
    loop.operands.assign(sum.parts.size(), {{1}});
    loop.results.push_back({{1}});
    ASYRA_ASSIGN_OR_RETURN(
        GeneratedKernel kernel,
        GeneratedKernel::Create(expression, Collapsed(loop)));
    return std::make_unique<SumAction>(label_, kernel, sum);
  }

  Action Post(absl::Span<const PlanStep> posts) override {
    OnGpu gpu(options_.ordinal);
    auto event = std::make_shared<CudaEvent>(/*timed=*/false);
    if (IsLocal(posts[0].signal)) {
      events_[posts[0].signal].push_back(event);
      return std::make_unique<EventAction>(label_, event, true);
    }
    std::vector<uint32_t*> theirs;
    for (const PlanStep& post : posts) {
      int64_t count = posted_[post.signal]++;
      theirs.push_back(flags_[signals_[post.signal].to_rank] +
                       first_flag_[post.signal] + count);
    }
    raised_[posts[0].queue] = event;
    return std::make_unique<RaiseAction>(label_, *options_.flags,
                                         std::move(theirs), event);
  }

  // Flags of earlier posts are cleared too.
  Action Wait(absl::Span<const PlanStep> waits) override {
    if (IsLocal(waits[0].signal)) {
      auto& events = events_[waits[0].signal];
      auto count = static_cast<size_t>(waits[0].count);
      if (events.size() < count) {
        return Unimplemented("{}: a wait is issued before its post", label_);
      }
      return std::make_unique<EventAction>(label_, events[count - 1], false);
    }
    std::vector<uint32_t*> mine;
    for (const PlanStep& wait : waits) {
      uint32_t* first = flags_[self_] + first_flag_[wait.signal];
      for (int64_t& next = awaited_[wait.signal]; next < wait.count; ++next) {
        mine.push_back(first + next);
      }
    }
    return std::make_unique<AwaitAction>(
        label_, *options_.flags, std::move(mine), RaisedBefore(waits[0].queue));
  }

 private:
  // The last flags that other queues have raised, but for those that this queue
  // has waited behind.
  std::vector<SharedEvent> RaisedBefore(int queue) {
    std::vector<SharedEvent> events;
    for (const auto& [other, event] : raised_) {
      SharedEvent& seen = behind_[{queue, other}];
      if (other == queue || seen == event) continue;
      seen = event;
      events.push_back(event);
    }
    return events;
  }

  bool IsLocal(size_t signal) const {
    return signals_[signal].from_rank == signals_[signal].to_rank;
  }

  CopyPlanOptions options_;
  const int self_;
  const std::vector<int64_t> members_;
  const std::string label_;
  const std::vector<PlanSignal> signals_;
  std::vector<int64_t> first_flag_;        // by signal, of who waits for it
  std::vector<int64_t> posted_, awaited_;  // by signal
  int64_t num_flags_ = 0;
  std::vector<bool> others_write_;                 // by buffer of this rank
  std::vector<void*> mine_;                        // its buffers
  std::vector<uint32_t*> flags_;                   // by member
  std::vector<std::vector<PeerAddress>> buffers_;  // by member
  // Events by signal between queues of this GPU, of each post.
  std::map<int, std::vector<SharedEvent>> events_;
  std::map<int, SharedEvent> raised_;                  // last, by queue
  std::map<std::pair<int, int>, SharedEvent> behind_;  // by queue, of another
};

}  // namespace

absl::Status ExchangeMessages(const ExchangeCall& call, ncclComm_t comm,
                              cudaStream_t stream) {
  ASYRA_RETURN_IF_ERROR(ToStatus(ncclGroupStart(), "ncclGroupStart"));
  absl::Status status;
  for (const ExchangeCall::Message& send : call.sends) {
    status.Update(ToStatus(
        ncclSend(send.data, send.bytes, ncclInt8, send.member, comm, stream),
        "ncclSend"));
  }
  for (const ExchangeCall::Message& receive : call.receives) {
    status.Update(ToStatus(ncclRecv(receive.data, receive.bytes, ncclInt8,
                                    receive.member, comm, stream),
                           "ncclRecv"));
  }
  // Also after an error: an open group would include all later calls.
  status.Update(ToStatus(ncclGroupEnd(), "ncclGroupEnd"));
  return status;
}

absl::StatusOr<std::unique_ptr<PlanLink>> MakeCopyPlan(
    const PlanUse& use, CopyPlanOptions options) {
  for (const PlanStep& step : use.plan.steps[use.self]) {
    if (step.kind == PlanStep::kCopy && step.reads[0].rank != use.self) {
      return Unimplemented(
          "the plan copies from other GPUs (route=pull); they have to write");
    }
  }
  auto plan = std::make_unique<CopyPlan>(use, options);
  ASYRA_RETURN_IF_ERROR(plan->TakeFlags());
  return plan;
}

}  // namespace asyra::cuda
