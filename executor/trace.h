// A step as it ran, as a trace that Perfetto, chrome://tracing and Holistic
// Trace Analysis read: the form of simulator/report/trace.h, so that the
// predicted and the real timeline of a program open side by side.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "executor/executor.h"

namespace asyra {

// Writes JSON in the form PyTorch's profiler (Kineto) writes: a slice for each
// op on the track of its stream, in us from the beginning of the step;
// collectives are named ncclDevKernel_..., with an arrow ("wait") from each
// that was started to the op after its wait. The parts of overlaps are no
// kernels ("overlap"), on tracks of the queues. `args` of a slice hold `op`,
// its position in the program, and `value`, the name of its first result.
std::string WriteProfileTrace(const Program& program, int64_t rank,
                              absl::Span<const OpTime> times);

}  // namespace asyra
