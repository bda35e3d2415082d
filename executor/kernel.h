// A kernel computes one use of an op on one device. All that is expensive
// (choosing an algorithm, descriptors, tables, the size of the workspace) is
// done once, when it is prepared; a launch only enqueues.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/stream.h"
#include "executor/tuning/tuning_results.h"
#include "ir/copy_engine.h"
#include "ir/program.h"

namespace asyra {

// The use of an op that a kernel is prepared for: one rank's view of it.
class KernelUse {
 public:
  KernelUse(const Program& program, const Op& op, int64_t rank)
      : KernelUse(*op.def, op.attrs, program.OperandTypes(op),
                  program.ResultTypes(op), program.mesh, rank) {}
  KernelUse(const OpDef& def, AttrMap attrs, std::vector<Type> operands,
            std::vector<Type> results, Mesh mesh, int64_t rank);

  // Returns the use of an op of this op's body, which runs by the schedule of
  // the whole op (ScheduleAttrs).
  KernelUse OfPart(const OpCall& part) const;
  // The same of operands whose rows are so far apart, by operand: elements from
  // one row, of the last dimension, to the next; 0: dense. Kernels of matmuls
  // take them for their factors, others for none.
  KernelUse WithRowStrides(std::vector<int64_t> strides) const;

  const OpDef& def() const { return *def_; }
  const AttrMap& attrs() const { return attrs_; }
  // Returns the call with global types. It refers to this.
  OpCall call() const { return {*def_, attrs_, operands_, results_}; }
  const Mesh& mesh() const { return mesh_; }
  int64_t rank() const { return rank_; }
  // SMs that its kernels leave to others (ScheduleAttrs).
  int sm_margin() const { return SmMargin(attrs_); }
  int num_operands() const { return static_cast<int>(locals_.size()); }
  int num_results() const { return static_cast<int>(local_results_.size()); }

  // Returns local types: this rank's shards, without axes.
  const Type& operand(int i) const { return locals_[i]; }
  const Type& result(int i) const { return local_results_[i]; }
  // Returns the row stride of this rank's part; 0: dense.
  int64_t row_stride(int i) const {
    return row_strides_.empty() ? 0 : row_strides_[i];
  }
  // Unimplemented where rows of an operand are apart, for kernels that cannot
  // read those.
  absl::Status RequireDense() const;
  // Returns global types: global sizes, with axes.
  const std::vector<Type>& global_operands() const { return operands_; }
  const std::vector<Type>& global_results() const { return results_; }
  // Returns the global index of the first element this rank holds of a
  // dimension.
  int64_t Start(const Type& global, int dim) const {
    return ShardStart(global.dims[dim], mesh_, rank_);
  }

 private:
  const OpDef* def_;
  AttrMap attrs_;
  std::vector<Type> operands_, results_, locals_, local_results_;
  std::vector<int64_t> row_strides_;  // by operand; empty: all are dense
  Mesh mesh_;
  int64_t rank_;
};

// Addresses of a launch's values in device memory. The arrays outlive the
// kernel's last launch and always hold the same addresses.
struct KernelArgs {
  absl::Span<void* const> operands;
  absl::Span<void* const> results;
  void* workspace = nullptr;  // of workspace_bytes()
};

// Work of a launch on one of its queues.
struct KernelPart {
  std::string queue;  // "copy 0"
  std::string name;   // "copy %2[0:4, 0:8] to %2[0:4, 0:8] of rank 1"
  bool is_copy = false;
  // Timed, of the last launch. They live as long as the kernel.
  const Event* begin = nullptr;
  const Event* end = nullptr;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Returns the bytes of memory it needs while it runs; aligned as device
  // memory is.
  virtual int64_t workspace_bytes() const { return 0; }
  // False where the op's reference runs on the host because there is no kernel:
  // slow, and it allocates.
  virtual bool is_native() const { return true; }
  // False for a fusion whose ops run one after the other because there is no
  // kernel for all of them.
  virtual bool is_whole() const { return true; }
  // Returns what carries a collective, a word of ir/copy_engine.h.
  virtual std::string_view transport() const { return kLibrary; }
  // Adds the tuning results that it was prepared with, which ranks
  // synchronize.
  virtual void AddTuningResults(TuningResults* results) const { (void)results; }
  // Streams that a launch uses beside its own: what it enqueues there runs
  // after the work before it on its own, and before the work behind it.
  virtual int queues() const { return 0; }
  // Gives the kernel so many streams or more, once, before Bind; other kernels
  // of the rank use them too, and they outlive the launches.
  virtual void UseQueues(absl::Span<Stream* const> queues) { (void)queues; }
  // Makes launches record when their parts run; called once, before Bind.
  virtual void RecordParts() {}
  // Returns the parts of a kernel that does more than one thing at a time,
  // after Bind; none without RecordParts.
  virtual std::vector<KernelPart> parts() const { return {}; }
  // Tells the kernel where its values are; called once, before the first
  // launch. All ranks bind their collectives in the order of the program.
  virtual absl::Status Bind(const KernelArgs& args) {
    (void)args;
    return absl::OkStatus();
  }
  // Enqueues it. Errors while it runs go to the stream's Failure, after the
  // label.
  virtual void Launch(const KernelArgs& args, Stream& stream) = 0;
  // Returns whether Launch leaves the self-copy to LaunchSelfCopy; only
  // collectives whose CollectiveUse is split may do so.
  virtual bool has_self_copy() const { return false; }
  // Enqueues the self-copy, on a stream where it does not delay the work after
  // Launch. Both have ended before the result is read.
  virtual void LaunchSelfCopy(const KernelArgs& args, Stream& stream) {
    (void)args;
    (void)stream;
  }

  const std::string& label() const { return label_; }
  void set_label(std::string label) { label_ = std::move(label); }

 private:
  std::string label_;
};

}  // namespace asyra
