// Live memory of a replayed program on one device.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"

namespace asyra {

struct OpSpan;

// Bytes live from `time_us` on, until the next point.
struct MemoryPoint {
  double time_us = 0;
  int64_t live_bytes = 0;
};

struct MemoryProfile {
  int64_t peak_bytes = 0;    // inputs and weights included
  int64_t weight_bytes = 0;  // weights and state
  std::vector<MemoryPoint> points;
};

// Inputs of every role are resident throughout, and so are constants. A
// result is allocated when its op starts and freed when the last op that reads
// it ends; the operands of a `start` are read until its wait is over; outputs
// stay to the end. A view, and a wait, is its operand under another name. An
// output that aliases a state input is written in place. Of what happens at
// one instant, frees come first.
MemoryProfile ReplayMemory(const Program& program,
                           absl::Span<const OpSpan> spans);

struct LiveBuffer {
  ValueId value = kNoValue;  // whose buffer it is; views have none
  int64_t bytes = 0;
};

// What is live at `time_us`, largest first; their sum is `live_bytes` of the
// point that holds then.
std::vector<LiveBuffer> LiveBuffersAt(const Program& program,
                                      absl::Span<const OpSpan> spans,
                                      double time_us);

}  // namespace asyra
