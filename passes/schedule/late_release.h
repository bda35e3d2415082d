// Keeps memory from filling with what is made long before it is read: gathered
// parameters, values that are computed again.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "simulator/costed_program.h"
#include "simulator/replay.h"

namespace asyra {

// By op, when it may start at the earliest (ListOptions::release_us), from the
// `spans` of a step in another order. An op after which more is alive than
// before it starts at most `window_us` before it must, so that those that read
// its results start when they did; ops of one stream one after the other. All
// other ops may start at once.
std::vector<double> LateReleases(const CostedProgram& costed,
                                 absl::Span<const OpSpan> spans,
                                 double window_us);

}  // namespace asyra
