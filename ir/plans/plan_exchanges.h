// The exchanges of a chunk plan: messages between ranks that a library carries,
// as NCCL does, where copy engines do not reach.
//
// An exchange is one call on each rank that has a part in it: all that the rank
// sends and all that it receives, in any order. The call returns when the
// rank's own messages have been sent and those to it have come; it may wait
// for every other rank of the exchange to make the call. So memory that is
// received into belongs to the receiver's step, and nobody else's signal is
// needed. All ranks make the calls in the order of their numbers, on one queue.
#pragma once

#include <map>
#include <vector>

#include "absl/status/status.h"
#include "ir/plans/chunk_plan.h"

namespace asyra {

// Returns whether a plan has any. Then nothing else carries its chunks between
// ranks (PlanExchanges::Check).
bool HasExchanges(const ChunkPlan& plan);

class PlanExchanges {
 public:
  struct Part {
    int rank = 0, step = 0;
  };
  // A message from one rank to another.
  struct Message {
    PlanRegion read, write;
  };

  // `plan` outlives it.
  explicit PlanExchanges(const ChunkPlan& plan);

  bool empty() const { return parts_.empty(); }
  // Returns the largest number.
  int last() const { return empty() ? 0 : parts_.rbegin()->first; }
  // Returns the ranks that have a part in an exchange, in order.
  const std::vector<Part>& Parts(int number) const { return parts_.at(number); }
  // Returns what comes to a rank in an exchange, by sender and then in the
  // order in which each sends it.
  std::vector<Message> Incoming(int rank, int number) const;
  // Returns the senders of these messages, each once.
  std::vector<int> SendersTo(int rank, int number) const;

  // Checks that each rank makes its calls in the order of their numbers, on one
  // queue that does not compute, that who is sent something takes part, and
  // that no copy reaches another rank beside them. The error names rank and
  // step.
  absl::Status Check() const;

 private:
  const ChunkPlan& plan_;
  std::map<int, std::vector<Part>> parts_;  // by number
};

}  // namespace asyra
