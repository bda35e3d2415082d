// Times of collectives between the ranks of this host, alone and beside
// computation.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/bench/kernel_timer.h"
#include "executor/bench/load_timer.h"
#include "executor/bench/program_calls.h"
#include "executor/run.h"

namespace asyra {

// A compute kernel and a collective of all ranks, each alone and while the
// other runs.
struct PairCall {
  LocalCall compute;
  CollectiveCall collective;
  CollectiveKind kind;  // of `collective`
  // Both run for this long before each is timed, so that the GPU's clock
  // settles at what its power allows.
  double settle_s = 0;
};

struct PairTiming {
  double compute_us = 0, collective_us = 0;  // alone
  double compute_beside_us = 0, collective_beside_us = 0;
};

// One of several calls that are timed together, over the mesh (x=ranks): an op
// that computes, a collective or an overlap. Collectives run on a stream of
// their own, in order, and all others on another one.
struct SequenceCall {
  std::string text;
  // Earlier calls that it waits for, by position; those of its stream anyway.
  std::vector<int> after;
};

// One rank's end. Ranks are threads, each on a device of its own, that call it
// in the same order and get the same numbers.
class RankTimer {
 public:
  virtual ~RankTimer() = default;
  virtual int64_t rank() const = 0;

  // All devices take part, in groups of neighbours; the slowest rank counts. A
  // sample is a row of collectives that takes about a millisecond, at most 20
  // of them; the time of one is the mean. Barriers on the devices hold the row
  // back until all hosts have enqueued it. Self-copies (Kernel::LaunchSelfCopy)
  // are not part of the time. Errors: Unimplemented where the call asks for
  // copy engines and they cannot carry it; those of the communicator.
  virtual absl::StatusOr<Timing> TimeCollective(const CollectiveCall& call,
                                                int samples = 7) = 0;
  virtual absl::StatusOr<PairTiming> TimePair(const PairCall& pair,
                                              int samples = 5) = 0;
  // All devices at the same time. Errors: Unimplemented where a device does not
  // tell its clock and power.
  virtual absl::StatusOr<LoadPower> PowerOf(const Load& load) = 0;
  // Times from the begin of the first call to the end of all, on the slowest
  // rank. A sample is a row of them, each after the one before. Overlaps are
  // carried out by chunk plans. Errors: Unimplemented also where ranks do not
  // carry them; those of TimeCollective and of the device's kernels.
  virtual absl::StatusOr<Timing> TimeSequence(
      absl::Span<const SequenceCall> calls, int samples = 7) = 0;
  // Bytes of device memory that the first such collective over all devices
  // allocates and keeps, the largest of all devices; 0 where devices do not
  // report their memory. Nothing else may use the devices meanwhile. Errors: as
  // above.
  virtual absl::StatusOr<int64_t> BytesToCarry(const CollectiveCall& call) = 0;
  // Broadcasts the value of rank 0.
  virtual absl::StatusOr<bool> Agree(bool mine) = 0;
};

// Errors: `platform` cannot run so many ranks; those of `body`.
absl::Status RunRankTimers(Platform& platform, int64_t ranks, double timeout_s,
                           const std::function<absl::Status(RankTimer&)>& body);

}  // namespace asyra
