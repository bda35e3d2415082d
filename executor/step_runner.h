// The ops of one rank's program as launches: kernels chosen and prepared,
// events between streams, addresses bound once. A step is then a walk over
// an array.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/executor.h"
#include "executor/memory_plan.h"
#include "executor/sync_plan.h"

namespace asyra {

class StepRunner {
 public:
  // Everything referred to outlives the runner.
  struct Setup {
    const Program& program;
    const MemoryPlan& memory;
    const std::vector<bool>& in_halves;  // by value (ir/halves.h)
    const SyncPlan& sync;
    Device& device;
    Communicator* world;  // null for one device
    int64_t rank;
    const ExecutorOptions& options;
    int64_t guard_bytes;  // as `memory` was planned with
    Failure* failure;
  };
  // Chooses and prepares all kernels, those of collectives last, and makes
  // streams and events. Tuning results are the same on all ranks.
  static absl::StatusOr<std::unique_ptr<StepRunner>> Create(const Setup& setup);

  // Bytes, of all streams together.
  int64_t workspace_bytes() const { return workspace_bytes_; }
  std::vector<std::string> fallback_ops() const;
  std::vector<CollectiveRun> collectives() const;
  std::vector<std::string> fallback_collectives() const;
  std::vector<std::string> split_fusions() const;

  // Takes the memory of each region and the workspaces, which stay where they
  // are; `outside` has the addresses of values of Region::kOutside, by value.
  absl::Status Bind(std::byte* arena, std::byte* resident, std::byte* workspace,
                    std::vector<void*> outside);
  void* AddressOf(const Placement& placement) const;

  // Returns the stream for work before and after the ops of a step.
  Stream& home() { return *streams_[0]; }
  // Ops that are constant, once.
  void EnqueueConstants();
  // Enqueues all other ops, after the work on the home stream and before its
  // later work: captured once.
  void EnqueueStep() { step_->Replay(); }

  // Times of a synchronized step; empty without options.profile.
  std::vector<OpTime> Profile() const;

 private:
  // A kernel with its arguments.
  struct Launch {
    std::unique_ptr<Kernel> kernel;
    std::vector<void*> operands, results;
    KernelArgs args;
  };
  struct OpLaunch {
    int op = 0;
    int stream = 0;
    bool in_step = true;  // false for constants: they run before the first
    std::vector<Event*> waits;
    // Null for views, which only synchronize.
    std::unique_ptr<Launch> launch;
    std::string obstacle;  // of a collective, as CollectiveRun has it
    // Events for the earliest begin of a collective's self-copy, and for its
    // end.
    std::unique_ptr<Event> self_copy_begin, self_copy_end;
    std::vector<std::unique_ptr<Launch>> before, after;  // probes
    std::unique_ptr<Event> record;                       // null: none waits
    std::unique_ptr<Event> begin, end;                   // of the profile
  };

  explicit StepRunner(const Setup& setup)
      : setup_(setup), def_use_(setup.program) {}
  absl::Status MakeStreams();
  absl::Status MakeOps();
  absl::Status MakeKernels(bool of_collectives);
  absl::Status MakeKernel(OpLaunch* launch);
  // Prepares the kernel of an overlap, in pieces or in one kernel.
  absl::StatusOr<std::unique_ptr<Kernel>> OverlapKernel(
      const KernelUse& use, int op, const std::string& label);
  // Returns the wait of a collective of one value that is started; -1 of
  // others.
  int OnlyWait(const Op& op) const;
  // Waits for collectives wait for their self-copies too.
  absl::Status MakeSelfCopies();
  // Streams for Kernel::queues().
  absl::Status MakeQueues();
  absl::Status SyncKernelTuning();
  void PlaceWorkspaces();
  // Labels of the ops that have the property, or whose kernel has, without
  // repetition.
  std::vector<std::string> OpsWhere(bool (*holds)(const Op& op,
                                                  const Kernel& kernel)) const;
  void BindOp(const Op& op, Launch* launch, std::byte* workspace);
  // Adds the probes of `op` before `launch` and after `last`, where it has
  // ended.
  absl::Status AddProbes(const Op& op, OpLaunch* launch, OpLaunch* last);
  absl::Status AddProbe(Probe probe, ValueId value, std::string label,
                        std::vector<std::unique_ptr<Launch>>* to);
  absl::Status AddMemoryProbe(Probe probe, const Type& local, void* address,
                              uint64_t* cell, std::string label,
                              std::vector<std::unique_ptr<Launch>>* to);
  absl::Status AddStepProbes();
  // Returns whether a result is written over the operand, or over some operand.
  bool IsOverwritten(const Op& op, ValueId operand) const;
  bool Overwrites(const Op& op, ValueId result) const;
  void EnqueueKernel(OpLaunch& op, Stream& stream);
  void Enqueue(OpLaunch& op);
  void EnqueueOps();

  Setup setup_;
  DefUse def_use_;
  std::byte* arena_ = nullptr;
  std::byte* resident_ = nullptr;
  std::vector<void*> outside_;  // by value
  int64_t workspace_bytes_ = 0;
  std::vector<int64_t> workspace_at_;  // by stream
  // Kernels and events outlive the streams that run them.
  std::vector<OpLaunch> ops_;
  std::vector<std::unique_ptr<Launch>> at_begin_, at_end_;  // probes
  std::unique_ptr<Event> begun_;
  std::unique_ptr<Event> origin_;                 // of the profile's times
  std::vector<std::unique_ptr<Event>> finished_;  // by stream
  std::vector<ValueId> root_;                     // of views
  std::deque<uint64_t> cells_;                    // of probes
  std::vector<uint64_t*> cell_of_;                // by root
  std::vector<std::unique_ptr<Stream>> streams_;
  std::unique_ptr<Stream> self_copies_;  // of collectives; null: there are none
  std::vector<std::unique_ptr<Stream>> queues_;
  std::unique_ptr<Recording> step_;
};

}  // namespace asyra
