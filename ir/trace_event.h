// Shared by traces of simulated and of real steps, in the form of PyTorch's
// profiler (Kineto), so that two timelines of a program open side by side.
#pragma once

#include <string>
#include <string_view>

#include "ir/program.h"
#include "nlohmann/json_fwd.hpp"

namespace asyra {

// Trace times have three decimals. Rounding both ends of a slice, and not its
// duration, keeps neighbours from overlapping.
double TraceUs(double us);

// The name of a slice: "ncclDevKernel_AllReduce" for any collective, even on
// copy engines, because Holistic Trace Analysis recognises communication by
// that name; OpLabel otherwise.
std::string TraceName(const Op& op);

// Adds the arguments that profilers record of a collective: its name, the group
// that `device` is in, element type, and elements in and out of a device; and
// "transport", what carries it: a word of ir/copy_engine.h.
void AddCollectiveArgs(const Program& program, const Op& op, int64_t device,
                       std::string_view transport,
                       nlohmann::ordered_json* args);

}  // namespace asyra
