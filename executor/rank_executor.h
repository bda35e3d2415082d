// The executor of one rank: what Executor::Load makes.
#pragma once

#include <memory>
#include <vector>

#include "executor/executor.h"
#include "executor/failure.h"
#include "executor/memory_plan.h"
#include "executor/step_queue.h"
#include "executor/step_runner.h"
#include "executor/sync_plan.h"

namespace asyra {

class RankExecutor : public Executor {
 public:
  explicit RankExecutor(Program program) : program_(std::move(program)) {}
  ~RankExecutor() override;

  const Program& program() const override { return program_; }
  absl::Status Prepare(Device& device, Communicator* world,
                       const WeightStore* weights,
                       const ExecutorOptions& options) override;

  std::vector<std::string> fallback_ops() const override {
    return runner_->fallback_ops();
  }
  std::vector<CollectiveRun> collectives() const override {
    return runner_->collectives();
  }
  std::vector<std::string> fallback_collectives() const override {
    return runner_->fallback_collectives();
  }
  std::vector<std::string> split_fusions() const override {
    std::vector<std::string> all = runner_->split_fusions();
    all.insert(all.end(), split_.begin(), split_.end());
    return all;
  }
  MemoryUse memory() const override { return memory_use_; }
  absl::StatusOr<MemoryUse> MeasureMemory() override;

  absl::Status SetState(std::string_view name, const Tensor& local) override;
  absl::StatusOr<Tensor> State(std::string_view name) override;
  std::vector<NamedInput> inputs() const override;

  absl::Status Step(absl::Span<const Tensor> inputs) override;
  absl::Status Start(absl::Span<const Tensor> inputs) override;
  absl::Status Finish() override;
  absl::Status CopyInputs(absl::Span<const Tensor> inputs) override;
  absl::Status StartCopied() override;
  absl::StatusOr<int64_t> Enqueue(absl::Span<const Tensor> inputs) override;
  absl::StatusOr<int64_t> EnqueueViews(absl::Span<const DeviceView> inputs,
                                       void* stream) override;
  std::vector<std::string_view> scalars() const override;
  absl::StatusOr<std::vector<double>> Await(int64_t step) override;
  absl::StatusOr<double> SecondsOf(int64_t step) const override;

  absl::StatusOr<DeviceView> InputView(std::string_view name) const override;
  absl::StatusOr<DeviceView> OutputView(std::string_view name) const override;
  absl::StatusOr<Tensor> Output(size_t index) override;
  std::vector<OpTime> Profile() const override;

 private:
  // Content of memory before it is written.
  static constexpr uint8_t kUnused = 0xa5;

  // Preparing (rank_prepare.cc).
  absl::Status PrepareAll(Device& device, const WeightStore* weights,
                          const ExecutorOptions& options);
  absl::Status CheckSize() const;
  // Returns whether an overlap runs as such, in pieces or as one kernel, and
  // not as its ops.
  absl::StatusOr<bool> RunsWhole(const Op& op) const;
  // Puts the ops of the other overlaps in their places.
  absl::Status SplitOverlaps();
  // Fill in outside_.
  absl::Status JoinStates();
  absl::Status TakeMemoryOfCaller();
  absl::StatusOr<ValueId> FindForCaller(std::string_view name) const;
  // Returns whether Prepare reads its data.
  bool IsFilled(const Input& input) const;
  absl::Status CheckWeights(const WeightStore* weights) const;
  absl::Status ReserveMemory();
  absl::Status FillResident(const WeightStore* weights);
  absl::Status FillWeight(const Input& input, const WeightStore* weights);

  // Steps.
  absl::Status Ready() const;
  absl::Status ReadyForStep() const;
  absl::Status CheckWorld(double waited_s) const;
  WaitCheck WorldCheck() const;
  absl::Status CheckType(ValueId value, DType dtype,
                         absl::Span<const int64_t> shape) const;
  // T: Tensor or DeviceView.
  template <typename T>
  absl::Status CheckInputs(absl::Span<const T> inputs) const;
  // Parts of a step; the inputs are copied between BeginStep and RunStep.
  // Errors end all ranks.
  absl::Status BeginStep(const absl::Status& checked);
  void EnqueueInputs(absl::Span<const Tensor> inputs);
  void RunStep();
  int64_t EndStep();
  absl::Status MakeQueue();
  absl::Status WaitForCaller(void* stream);
  void EnqueueOutputs();

  int64_t rank() const { return world_ == nullptr ? 0 : world_->rank(); }
  Type Local(ValueId value) const {
    return program_.type(value).Local(program_.mesh);
  }
  void* Address(ValueId value) const {
    return runner_->AddressOf(plan_.values[value]);
  }
  bool IsShared(const Input& input) const {
    return options_.states != nullptr && input.role != InputRole::kData;
  }
  absl::StatusOr<ValueId> FindResident(std::string_view name) const;
  absl::StatusOr<int64_t> UsedOf(const DeviceMemory& memory);
  // A value as it is stored on the device, and back.
  Tensor Stored(ValueId value, const Tensor& plain) const;
  absl::StatusOr<Tensor> Read(ValueId value, const void* address);
  // Error: it is not stored as a view of the device would show it.
  absl::Status CheckPlain(ValueId value) const;
  DeviceView ViewOf(ValueId value, void* address) const;
  // Orders this executor's work after, and before, that of others that share
  // its states.
  void WaitForOthers();
  void MarkUse();

  Program program_;
  std::vector<std::string> split_;  // overlaps, of which it has the ops
  Device* device_ = nullptr;
  Communicator* world_ = nullptr;
  ExecutorOptions options_;
  MemoryPlan plan_;
  SyncPlan sync_;
  MemoryUse memory_use_;
  std::vector<void*> outside_;     // by value: memory of others, or null
  std::vector<bool> in_halves_;    // by value (ir/halves.h)
  std::vector<Tensor> in_flight_;  // inputs in halves that are being copied
  Failure failure_{[this](const absl::Status& status) {
    if (world_ != nullptr) world_->Abort(status);
  }};
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<StepQueue> queue_;         // null before the first Enqueue
  std::vector<size_t> scalars_;              // outputs
  std::unique_ptr<Stream> caller_;           // null on cpus
  void* caller_handle_ = nullptr;            // that caller_ wraps
  std::unique_ptr<Event> given_, has_read_;  // on the caller's stream and ours
  bool running_ = false;                     // between Start and Finish
  bool has_inputs_ = false;                  // by CopyInputs, for the next step
  bool has_outputs_ = false;
};

}  // namespace asyra
