// A simulated program as a trace that Perfetto, chrome://tracing and Holistic
// Trace Analysis read.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "ir/program.h"
#include "simulator/machine/machine.h"
#include "simulator/replay/replay.h"

namespace asyra {

// JSON in the form PyTorch's profiler (Kineto) writes. One slice per kernel on
// the track of its stream, collectives named ncclDevKernel_...; one per launch
// on the host's track, with an arrow ("ac2g") to its kernel; an arrow ("wait")
// from each started collective to the first kernel after its wait; a counter
// of live memory; for each overlap what its queues do, on tracks of their own
// and no kernels ("overlap"); one step ("ProfilerStep#0"). Times are in us from
// the start of the program, to the nanosecond; slices of one track never
// overlap, but for the step around the launches. `result` comes from Simulate.
std::string WriteChromeTrace(const Program& program, const SimResult& result,
                             const Machine& machine);

struct TracedStep {
  const Program& program;
  const SimResult& result;
  std::string name;  // "baseline"
};

// Several steps on one time axis, at least one, each shown as a device;
// ReadProfile reads the first, which is shown last. For viewers: tools that
// count kernels count those of all steps.
std::string WriteChromeTrace(absl::Span<const TracedStep> steps,
                             const Machine& machine);

}  // namespace asyra
