// Execution of a rank's steps of a chunk plan (ir/plans/chunk_plan.h) on
// queues, which are streams: copies into and from the memory of other members,
// sums, signals between queues, and exchanges of messages. The device's kernels
// do the computing (executor/plan_kernel.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/stream.h"
#include "ir/plans/chunk_plan.h"

namespace asyra {

// This rank's use of a plan. Refers to what outlives the link.
struct PlanUse {
  const ChunkPlan& plan;
  // Ranks of the world in the order of the plan's; this rank is one of them.
  std::vector<int64_t> members;
  int self = 0;       // which of them it is
  std::string label;  // the op as errors name it
  // CTAs that a library may hold for its exchanges; 0: as many as it takes.
  int ctas = 0;
};

// Copies the box `what` from a tensor that holds `from_box` to one that holds
// `to_box`.
struct BoxCopy {
  const void* from = nullptr;
  Box from_box;
  void* to = nullptr;
  Box to_box;
  Box what;
  int64_t element_bytes = 0;
};

// Adds dense parts in their order, rounding once. `to` is none of them.
struct DenseSum {
  DType dtype = DType::kF32;
  std::vector<const void*> parts;
  int64_t elements = 0;
  void* to = nullptr;
};

// A rank's part of an exchange (ir/plans/plan_exchanges.h).
struct ExchangeCall {
  struct Message {
    int member = 0;        // the other one
    void* data = nullptr;  // dense, of this rank
    int64_t bytes = 0;
  };
  int number = 0;
  std::vector<Message> sends, receives;
};

// A step that is ready to run, once for each time that it is enqueued.
class PlanAction {
 public:
  virtual ~PlanAction() = default;
  virtual void Enqueue(Stream& stream) = 0;
};

class PlanLink {
 public:
  virtual ~PlanLink() = default;

  // Tells the members where this rank's buffers are; called once, before all
  // others, by all ranks of the world, in the order of the program. Errors: the
  // timeout, and those of other ranks.
  virtual absl::Status Connect(std::vector<void*> buffers) = 0;
  // Returns an address in memory that this rank's copies reach.
  virtual void* AddressOf(int member, int buffer) const = 0;

  // The steps of this rank, which outlive their last run and not the link.
  // `reaches`: the copy is from or to another member's memory.
  // Errors: those of the device.
  using Action = absl::StatusOr<std::unique_ptr<PlanAction>>;
  virtual Action Copy(const BoxCopy& copy, bool reaches) = 0;
  virtual Action Sum(const DenseSum& sum) = 0;
  // Posts, or waits, of the plan that are issued as one (JoinsStepBefore).
  // Counts go on from one step of the program to the next.
  virtual Action Post(absl::Span<const PlanStep> posts) = 0;
  virtual Action Wait(absl::Span<const PlanStep> waits) = 0;
  // Called by all ranks that have a part in it, in the order of its numbers.
  virtual Action Exchange(const ExchangeCall& call) = 0;
};

}  // namespace asyra
