// Times of ops alone on a device, with the kernels that the executor runs.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/bench/timing.h"
#include "executor/device.h"

namespace asyra {

struct KernelTimerOptions {
  int samples = 7;
  // A sample is as many launches as take this long, recorded and replayed as a
  // step is; their mean counts.
  double sample_us = 2000;
  int max_launches = 64;
  // Launches in turn have operands of their own, up to so many bytes together.
  int64_t apart_bytes = int64_t{128} << 20;
  int64_t index_limit = 4;  // integers are in [0, index_limit)
};

// Errors: Unimplemented where the device has no kernel for the use but its
// reference; memory; those of the kernel.
absl::StatusOr<Timing> TimeKernel(Device& device, const KernelUse& use,
                                  const KernelTimerOptions& options = {});

// An op of a program that is repeated step by step.
struct MixCall {
  KernelUse use;
  int count = 1;            // launches of a step
  int64_t index_limit = 4;  // integers are in [0, index_limit)
};

struct MixTimerOptions {
  // Warm-up: the calls run in turn for this long before they are timed, so that
  // the GPU's clock settles at what power and temperature allow.
  double warmup_s = 1;
  int samples = 9;
  // Calls shorter than this are timed several in a row, because recording
  // events takes time too.
  double call_us = 100;
};

// Returns the time of each call while all of them run in turn, as often as in a
// step: kernels timed alone and briefly run at a higher clock. A call that
// cannot be prepared has an error, as of TimeKernel, and the others run without
// it.
absl::StatusOr<std::vector<absl::StatusOr<Timing>>> TimeMix(
    Device& device, absl::Span<const MixCall> calls,
    const MixTimerOptions& options = {});

// The time to issue an op, measured on one that does next to nothing. A GPU has
// to be the calling thread's current one.
struct LaunchTimes {
  double eager_us = 0;     // of the host, op by op
  double recorded_us = 0;  // of the host, each op of a recording
  double device_us = 0;    // from the end of one to that of the next
};

absl::StatusOr<LaunchTimes> TimeLaunches(Device& device, const KernelUse& use);

}  // namespace asyra
