// A simulated program as a trace that Perfetto, chrome://tracing and Holistic
// Trace Analysis read.
#pragma once

#include <string>

#include "ir/program.h"
#include "simulator/replay.h"

namespace asyra {

// JSON in the form PyTorch's profiler (Kineto) writes: one slice per kernel on
// the track of its stream, collectives named ncclDevKernel_..., an arrow from
// each started collective to the first kernel after its wait, and a counter of
// live memory. Times are in us from the start of the program; slices of one
// track never overlap.
std::string WriteChromeTrace(const Program& program, const SimResult& result);

}  // namespace asyra
