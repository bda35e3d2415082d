// One rank's end of a world of ranks. Collectives of a program become kernels
// of the communicator, launched on the streams of the program; whatever
// carries the data (memory of one process, MPI, NCCL) progresses while other
// streams compute.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/kernel.h"
#include "ir/gpu/copy_engine_reach.h"

namespace asyra {

struct PlanUse;
class PlanLink;

// One use of a collective op by this rank; several operands move at once.
struct CollectiveUse {
  const KernelUse& use;
  // Ranks of the group in the order of GroupIndex; this rank is one of them.
  std::vector<int64_t> members;
  int op;             // position in the program, equal on all ranks
  std::string label;  // the op as errors name it
  // The self-copy may run on a stream of its own (Kernel::LaunchSelfCopy): the
  // collective has one value and a `start`.
  bool split = false;
};

// Thread-safe, except that ranks prepare and launch the collectives of one
// group in one order.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual std::string_view name() const = 0;
  // Returns the device whose memory it moves.
  virtual std::string_view device() const = 0;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  // Blocks until every rank has given its bytes; what each gave, by rank.
  // Every rank calls it equally often. Errors: the timeout, naming the ranks
  // that are missing; Abort by some rank.
  virtual absl::StatusOr<std::vector<std::string>> Exchange(
      std::string_view mine) = 0;

  // Called by all ranks, collectives in the order of the program. A result of
  // one with OpDef::in_place may overwrite its own operand, on all members or
  // on none.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> PrepareCollective(
      const CollectiveUse& use) = 0;

  // Returns the reason why copy engines would not carry it if it asks for them
  // (ir/gpu/copy_engine_reach.h), and `transport` has no effect; empty: they
  // would. All ranks call it.
  virtual absl::StatusOr<std::string> CopyEngineObstacle(
      const CollectiveUse& use) {
    (void)use;
    return ReachObstacle({.engines = false});
  }

  // Returns whether its ranks carry out chunk plans (ir/plans/chunk_plan.h) of
  // overlaps with this transport (ir/copy_engine.h): they reach each other's
  // memory, or a library moves messages. All ranks call it and get the same
  // answer.
  virtual absl::StatusOr<bool> CarriesPlans(std::string_view transport) {
    (void)transport;
    return false;
  }
  // This rank's end of a plan (executor/comm/plan_link.h), only where it
  // carries them. Called by all ranks, in the order of the program.
  virtual absl::StatusOr<std::unique_ptr<PlanLink>> LinkPlan(
      const PlanUse& use);

  // Returns the reason why an overlap of form one_kernel
  // (ir/plans/fused_reduction.h) is not one kernel here, and runs as its ops;
  // empty: it is. All ranks call it and get the same answer.
  virtual absl::StatusOr<std::string> OneKernelObstacle(
      const CollectiveUse& use) {
    (void)use;
    return "kernels of its ranks do not reach the memory of other ranks";
  }
  // Such a kernel, only where nothing is in its way. Called by all ranks, in
  // the order of the program.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneKernel(
      const CollectiveUse& use);

  // This rank begins a step.
  virtual void BeginStep() {}
  // Ranks that are known to have begun fewer steps than this one.
  virtual std::vector<int64_t> RanksBehind() const { return {}; }
  // Polled by this rank while it waits for a step, for `waited_s` so far. An
  // error if the transport or another rank has failed or the timeout is over.
  // Communicators whose kernels detect this themselves return OK.
  virtual absl::Status Check(double waited_s) {
    (void)waited_s;
    return absl::OkStatus();
  }

  // Waits until no rank uses memory of this rank's steps any more, as far as
  // that can be known after a failure, so that it can be freed.
  virtual void Drain() {}

  // This rank cannot go on: waiting ranks return an error that names it and
  // the cause. The first call counts.
  virtual void Abort(const absl::Status& cause) = 0;
};

}  // namespace asyra
