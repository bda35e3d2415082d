#include "executor/plan_kernel.h"

#include <algorithm>
#include <deque>

#include "executor/comm/plan_link.h"
#include "ir/overlap.h"
#include "ir/plans/overlap_shape.h"
#include "ir/plans/plan_exchanges.h"
#include "ir/plans/plan_packing.h"
#include "ir/support/round_up.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr int kComputeQueue = 0;

class PlanKernel : public Kernel {
 public:
  PlanKernel(const KernelUse& use, ChunkPlan plan, std::vector<int64_t> members,
             Device& device, Communicator& world)
      : use_(use),
        plan_(std::move(plan)),
        exchanges_(plan_),
        members_(std::move(members)),
        device_(device),
        world_(world) {
    auto self = std::find(members_.begin(), members_.end(), world.rank());
    self_ = static_cast<int>(self - members_.begin());
  }

  absl::Status Prepare() {
    for (size_t queue = 0; queue < plan_.queues.size(); ++queue) {
      if (plan_.queues[queue].computes == (queue == kComputeQueue)) continue;
      return Unimplemented(
          "queue {} of the plan is {}, only the first computes", queue,
          plan_.queues[queue].name);
    }
    dense_at_ = RoundUp(plan_.workspace_bytes, kWorkspaceAlignment);
    int64_t dense_bytes = 0, kernel_bytes = 0, message_bytes = 0;
    for (const PlanStep& step : steps()) {
      if (step.kind == PlanStep::kExchange) {
        message_bytes =
            std::max(message_bytes, PackingOfMessages(step).workspace_bytes);
      }
      if (!Computes(step)) continue;
      dense_bytes = std::max(dense_bytes, PackingOf(step).workspace_bytes);
      if (!IsKernel(step)) continue;
      ASYRA_ASSIGN_OR_RETURN(const Kernel* kernel,
                             KernelOf(step, PackingOf(step)));
      kernel_bytes = std::max(kernel_bytes, kernel->workspace_bytes());
    }
    messages_at_ = dense_at_ + RoundUp(dense_bytes, kWorkspaceAlignment);
    kernels_at_ = messages_at_ + RoundUp(message_bytes, kWorkspaceAlignment);
    workspace_bytes_ = kernels_at_ + kernel_bytes;
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override { return workspace_bytes_; }
  bool is_native() const override {
    return std::all_of(kernels_.begin(), kernels_.end(), [](const auto& known) {
      return known.kernel->is_native();
    });
  }
  void AddTuningResults(TuningResults* results) const override {
    for (const Known& known : kernels_) {
      known.kernel->AddTuningResults(results);
    }
  }

  int queues() const override {
    return static_cast<int>(plan_.queues.size()) - 1;
  }
  void UseQueues(absl::Span<Stream* const> queues) override {
    queues_.resize(plan_.queues.size());
    for (const PlanStep& step : steps()) {
      Queue& queue = queues_[step.queue];
      if (step.queue == kComputeQueue || queue.stream != nullptr) continue;
      queue.stream = queues[step.queue - 1];
      queue.ended = device_.CreateEvent(/*timed=*/false);
    }
    begun_ = device_.CreateEvent(/*timed=*/false);
  }

  void RecordParts() override { records_ = true; }
  std::vector<KernelPart> parts() const override {
    std::vector<KernelPart> parts;
    for (const Run& run : runs_) {
      if (run.begin == nullptr) continue;
      parts.push_back({plan_.queues[run.queue].name, run.name, run.is_copy,
                       run.begin.get(), run.end.get()});
    }
    return parts;
  }

  absl::Status Bind(const KernelArgs& args) override {
    for (Known& known : kernels_) {
      const OpDef& def = *plan_.body.ops[known.op].def;
      known.kernel->set_label(
          fmt::format("{}: op {}, {}", label(), known.op, def.name));
    }
    workspace_ = static_cast<std::byte*>(args.workspace);
    std::vector<void*> buffers;
    for (const PlanBuffer& buffer : plan_.buffers[self_]) {
      buffers.push_back(AddressOf(buffer, args));
    }
    ASYRA_ASSIGN_OR_RETURN(link_, world_.LinkPlan({plan_, members_, self_,
                                                   label(), use_.sm_margin()}));
    ASYRA_RETURN_IF_ERROR(link_->Connect(std::move(buffers)));
    for (size_t i = 0, count = 1; i < steps().size(); i += count) {
      count = StepsIssuedWith(i);
      size_t first = runs_.size();
      ASYRA_RETURN_IF_ERROR(
          BindSteps(absl::MakeConstSpan(steps()).subspan(i, count)));
      if (records_) RecordRuns(first, static_cast<int>(i));
    }
    return absl::OkStatus();
  }

  void Launch(const KernelArgs&, Stream& stream) override {
    stream.Record(*begun_);
    for (Queue& queue : queues_) {
      if (queue.stream != nullptr) queue.stream->Wait(*begun_);
    }
    for (Run& run : runs_) {
      Stream& on =
          run.queue == kComputeQueue ? stream : *queues_[run.queue].stream;
      if (run.begin != nullptr) on.Record(*run.begin);
      if (run.action != nullptr) {
        run.action->Enqueue(on);
      } else {
        run.piece->kernel->Launch(run.piece->args, on);
      }
      if (run.end != nullptr) on.Record(*run.end);
    }
    for (Queue& queue : queues_) {
      if (queue.stream == nullptr) continue;
      queue.stream->Record(*queue.ended);
      stream.Wait(*queue.ended);
    }
  }

 private:
  struct Queue {
    Stream* stream = nullptr;  // null: this rank has no steps on it
    std::unique_ptr<Event> ended;
  };
  // A kernel for all pieces of an op whose boxes are like these.
  struct Known {
    int op;
    std::vector<Type> operands;
    std::vector<int64_t> row_strides;
    Type result;
    std::unique_ptr<Kernel> kernel;
  };
  struct Piece {
    Kernel* kernel = nullptr;
    std::vector<void*> operands;
    void* result = nullptr;
    KernelArgs args;
  };
  struct Run {
    int queue;
    std::unique_ptr<PlanAction> action;
    Piece* piece = nullptr;  // instead of an action
    bool is_packing = false;
    // Profile data of a run that takes time.
    std::string name = "";
    bool is_copy = false;
    std::unique_ptr<Event> begin = nullptr, end = nullptr;
  };

  const std::vector<PlanStep>& steps() const { return plan_.steps[self_]; }
  // Returns how many steps are issued as one from this one on.
  size_t StepsIssuedWith(size_t step) const {
    size_t end = step + 1;
    while (end < steps().size() && JoinsStepBefore(plan_, self_, end)) ++end;
    return end - step;
  }
  static bool Computes(const PlanStep& step) {
    return step.kind == PlanStep::kPiece || step.kind == PlanStep::kSum;
  }
  const BodyOp& OpOf(const PlanStep& step) const {
    return plan_.body.ops[step.op];
  }
  // Views, which have no kernel, are copies.
  bool IsKernel(const PlanStep& step) const {
    return step.kind == PlanStep::kPiece && !OpOf(step).def->is_view;
  }
  int64_t ElementBytes(const PlanRegion& region) const {
    return SizeOf(plan_.dtype(region));
  }

  StepPacking PackingOf(const PlanStep& step) const {
    return StepPackingOf(plan_, step, device_.part_alignment());
  }

  absl::StatusOr<Kernel*> KernelOf(const PlanStep& step,
                                   const StepPacking& packing) {
    PieceCall piece(plan_, step);
    const OpCall& call = piece.call();
    for (const Known& known : kernels_) {
      if (known.op == step.op && known.operands == call.operands &&
          known.row_strides == packing.row_strides &&
          known.result == call.results[0]) {
        return known.kernel.get();
      }
    }
    KernelUse use = use_.OfPart(call).WithRowStrides(packing.row_strides);
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                           device_.PrepareKernel(use));
    kernels_.push_back({step.op,
                        {call.operands.begin(), call.operands.end()},
                        packing.row_strides,
                        call.results[0],
                        std::move(kernel)});
    return kernels_.back().kernel.get();
  }

  void* AddressOf(const PlanBuffer& buffer, const KernelArgs& args) const {
    if (buffer.role == PlanBuffer::kOperand) return args.operands[buffer.index];
    if (buffer.role == PlanBuffer::kResult) return args.results[buffer.index];
    return workspace_ + buffer.offset;
  }

  void AddRun(int queue, std::unique_ptr<PlanAction> action) {
    runs_.push_back({queue, std::move(action)});
  }

  // Names the runs of step `index`, from `first` on, and gives them events for
  // their times.
  void RecordRuns(size_t first, int index) {
    const PlanStep& step = steps()[index];
    if (step.kind == PlanStep::kWait || step.kind == PlanStep::kPost) return;
    std::string name = Describe(plan_, self_, index);
    name = name.substr(name.find(": ") + 2);
    for (size_t i = first; i < runs_.size(); ++i) {
      Run& run = runs_[i];
      run.name = run.is_packing ? "packing for " + name : name;
      run.is_copy = !Computes(step);
      run.begin = device_.CreateEvent(/*timed=*/true);
      run.end = device_.CreateEvent(/*timed=*/true);
    }
  }

  MessagePacking PackingOfMessages(const PlanStep& step) const {
    return MessagePackingOf(plan_, step,
                            exchanges_.Incoming(self_, step.count));
  }

  // Messages that are not dense are packed before, and unpacked behind.
  absl::Status BindExchange(const PlanStep& step) {
    std::vector<PlanExchanges::Message> incoming =
        exchanges_.Incoming(self_, step.count);
    MessagePacking packing = MessagePackingOf(plan_, step, incoming);
    auto bytes = [&](const PlanRegion& region) {
      return BytesOf(plan_, region);
    };
    ExchangeCall call{.number = step.count};
    for (size_t i = 0; i < step.reads.size(); ++i) {
      const PlanRegion& read = step.reads[i];
      call.sends.push_back({step.writes[i].rank,
                            BoxAt(read, messages_at_, packing.sent[i]),
                            bytes(read)});
      if (packing.sent[i] < 0) continue;
      ASYRA_RETURN_IF_ERROR(
          AddCopy(step.queue, read, call.sends[i].data, /*to_region=*/false));
    }
    for (size_t i = 0; i < incoming.size(); ++i) {
      const PlanRegion& write = incoming[i].write;
      call.receives.push_back({incoming[i].read.rank,
                               BoxAt(write, messages_at_, packing.received[i]),
                               bytes(write)});
    }
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<PlanAction> action,
                           link_->Exchange(call));
    AddRun(step.queue, std::move(action));
    for (size_t i = 0; i < incoming.size(); ++i) {
      if (packing.received[i] < 0) continue;
      ASYRA_RETURN_IF_ERROR(AddCopy(step.queue, incoming[i].write,
                                    call.receives[i].data, /*to_region=*/true));
    }
    return absl::OkStatus();
  }

  // Several are posts, or waits.
  absl::Status BindSteps(absl::Span<const PlanStep> of_one) {
    const PlanStep& step = of_one[0];
    if (Computes(step)) return BindComputation(step);
    if (step.kind == PlanStep::kExchange) return BindExchange(step);
    std::unique_ptr<PlanAction> action;
    if (step.kind == PlanStep::kPost) {
      ASYRA_ASSIGN_OR_RETURN(action, link_->Post(of_one));
    } else if (step.kind == PlanStep::kWait) {
      ASYRA_ASSIGN_OR_RETURN(action, link_->Wait(of_one));
    } else {
      const PlanRegion& read = step.reads[0];
      BoxCopy copy{link_->AddressOf(read.rank, read.buffer),
                   plan_.buffer(read).box,
                   link_->AddressOf(step.write.rank, step.write.buffer),
                   plan_.buffer(step.write).box,
                   step.write.box,
                   ElementBytes(read)};
      bool reaches = read.rank != self_ || step.write.rank != self_;
      ASYRA_ASSIGN_OR_RETURN(action, link_->Copy(copy, reaches));
    }
    AddRun(step.queue, std::move(action));
    return absl::OkStatus();
  }

  // Returns the beginning of a box that a step uses: in its buffer or, dense,
  // at `place` in a part of the workspace.
  void* BoxAt(const PlanRegion& region, int64_t part, int64_t place) const {
    if (place >= 0) return workspace_ + part + place;
    const PlanBuffer& buffer = plan_.buffer(region);
    return static_cast<std::byte*>(link_->AddressOf(self_, region.buffer)) +
           FirstElement(region.box, buffer.box) * ElementBytes(region);
  }

  // Adds a copy between a region and its dense copy.
  absl::Status AddCopy(int queue, const PlanRegion& region, void* dense,
                       bool to_region) {
    const Box& box = plan_.buffer(region).box;
    void* at = link_->AddressOf(self_, region.buffer);
    BoxCopy copy{at, box, dense, region.box, region.box, ElementBytes(region)};
    if (to_region) {
      std::swap(copy.from_box, copy.to_box);
      copy.from = dense;
      copy.to = at;
    }
    ASYRA_ASSIGN_OR_RETURN(auto action, link_->Copy(copy, /*reaches=*/false));
    AddRun(queue, std::move(action));
    runs_.back().is_packing = true;
    return absl::OkStatus();
  }

  absl::Status BindComputation(const PlanStep& step) {
    StepPacking packing = PackingOf(step);
    std::vector<void*> reads;
    for (size_t k = 0; k < step.reads.size(); ++k) {
      reads.push_back(BoxAt(step.reads[k], dense_at_, packing.reads[k]));
      if (packing.reads[k] < 0) continue;
      ASYRA_RETURN_IF_ERROR(
          AddCopy(kComputeQueue, step.reads[k], reads[k], false));
    }
    if (step.kind == PlanStep::kPiece && !IsKernel(step)) {
      return AddCopy(kComputeQueue, step.write, reads[0], true);
    }
    void* result = BoxAt(step.write, dense_at_, packing.write);
    if (step.kind == PlanStep::kSum) {
      DenseSum sum{plan_.dtype(step.write),
                   {reads.begin(), reads.end()},
                   step.write.box.elements(),
                   result};
      ASYRA_ASSIGN_OR_RETURN(auto action, link_->Sum(sum));
      AddRun(kComputeQueue, std::move(action));
    } else {
      ASYRA_RETURN_IF_ERROR(AddPiece(step, packing, std::move(reads), result));
    }
    if (packing.write < 0) return absl::OkStatus();
    return AddCopy(kComputeQueue, step.write, result, true);
  }

  absl::Status AddPiece(const PlanStep& step, const StepPacking& packing,
                        std::vector<void*> operands, void* result) {
    Piece& piece = pieces_.emplace_back();
    ASYRA_ASSIGN_OR_RETURN(piece.kernel, KernelOf(step, packing));
    piece.operands = std::move(operands);
    piece.result = result;
    piece.args = {piece.operands, absl::MakeConstSpan(&piece.result, 1),
                  workspace_ + kernels_at_};
    runs_.push_back({kComputeQueue, nullptr, &piece});
    return absl::OkStatus();
  }

  KernelUse use_;
  ChunkPlan plan_;
  PlanExchanges exchanges_;
  std::vector<int64_t> members_;
  Device& device_;
  Communicator& world_;
  int self_ = 0;
  std::vector<Known> kernels_;
  // Layout of the workspace: for the plan, for dense boxes of computations and
  // of messages, for pieces.
  int64_t dense_at_ = 0, messages_at_ = 0, kernels_at_ = 0;
  int64_t workspace_bytes_ = 0;
  std::byte* workspace_ = nullptr;
  std::unique_ptr<PlanLink> link_;
  std::deque<Piece> pieces_;
  std::vector<Run> runs_;      // in order of issue
  std::vector<Queue> queues_;  // of the plan
  std::unique_ptr<Event> begun_;
  bool records_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PreparePlanKernel(
    const KernelUse& use, std::vector<int64_t> members, Device& device,
    Communicator& world) {
  ASYRA_ASSIGN_OR_RETURN(
      ChunkPlan plan, PlanOf(use.attrs(), use.global_operands(), use.mesh()));
  auto kernel = std::make_unique<PlanKernel>(use, std::move(plan),
                                             std::move(members), device, world);
  ASYRA_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

}  // namespace asyra
