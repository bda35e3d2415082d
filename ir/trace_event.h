// What traces of simulated and of real steps have in common, as PyTorch's
// profiler (Kineto) does: two timelines of a program then open side by side.
#pragma once

#include <string>

#include "ir/program.h"
#include "nlohmann/json_fwd.hpp"

namespace asyra {

// Trace times have three decimals. Rounding both ends of a slice, and not its
// duration, keeps neighbours from overlapping.
double TraceUs(double us);

// What a slice is called: "ncclDevKernel_AllReduce" for any collective, whoever
// carries it, since that is how Holistic Trace Analysis tells communication
// from computation; OpLabel otherwise.
std::string TraceName(const Op& op);

// Adds what profilers tell of a collective: its name, the group that `device`
// is in, element type, and elements in and out of a device; and "transport",
// what carries it.
void AddCollectiveArgs(const Program& program, const Op& op, int64_t device,
                       bool by_copy_engine, nlohmann::ordered_json* args);

}  // namespace asyra
