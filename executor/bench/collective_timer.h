// Times of collectives between the ranks of this host, alone and beside
// computation.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "executor/bench/kernel_timer.h"
#include "executor/bench/program_calls.h"
#include "executor/run.h"

namespace asyra {

// A compute kernel and a collective of all ranks, each alone and while the
// other runs.
struct PairCall {
  LocalCall compute;
  CollectiveCall collective;
  CollectiveKind kind;  // of `collective`
};

struct PairTiming {
  double compute_us = 0, collective_us = 0;  // alone
  double compute_beside_us = 0, collective_beside_us = 0;
};

// One rank's end. Ranks are threads, each on a device of its own, that call it
// in the same order and get the same numbers.
class RankTimer {
 public:
  virtual ~RankTimer() = default;
  virtual int64_t rank() const = 0;

  // All devices take part, in groups of neighbours; the slowest rank counts. A
  // sample is as many collectives in a row as take about a millisecond, 20 at
  // most, of which each takes its share. It comes behind barriers on the
  // devices that last until all hosts have enqueued it. What a collective
  // leaves to those who wait for it (Kernel::LaunchSelfCopy) does not count.
  // Errors: Unimplemented where the call asks for copy engines and none carry
  // it so; those of the communicator.
  virtual absl::StatusOr<Timing> TimeCollective(const CollectiveCall& call,
                                                int samples = 7) = 0;
  virtual absl::StatusOr<PairTiming> TimePair(const PairCall& pair,
                                              int samples = 5) = 0;
  // Bytes of a device that are taken, and kept, when such a collective is
  // carried for the first time, over all devices: the most of any; 0 where
  // devices do not tell. Nothing else may use them meanwhile. Errors: as above.
  virtual absl::StatusOr<int64_t> BytesToCarry(const CollectiveCall& call) = 0;
  // Broadcasts the value of rank 0.
  virtual absl::StatusOr<bool> Agree(bool mine) = 0;
};

// Errors: `platform` has no room for so many ranks; those of `body`.
absl::Status RunRankTimers(Platform& platform, int64_t ranks, double timeout_s,
                           const std::function<absl::Status(RankTimer&)>& body);

}  // namespace asyra
