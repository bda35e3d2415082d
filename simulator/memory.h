// Memory of a replayed program on one device: what lives when, what is alive
// at the peak, and what that comes to once it is rounded, placed and joined by
// what the libraries take.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"
#include "simulator/machine.h"

namespace asyra {

struct OpSpan;
struct SimResult;

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
// it ends; the operands of a `start` are read until the first wait for it is
// over; outputs stay to the end. A view, and a wait, is its operand under
// another name. An output that aliases a state input is written in place, and
// so is a result that is planned to be on an operand. Of what happens at one
// instant, frees come first.
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

// Four answers to "how much memory", each at least the one before.
struct MemoryReport {
  int64_t live_bytes = 0;     // the peak of MemoryProfile
  int64_t rounded_bytes = 0;  // with allocations rounded to kAllocationBytes
  // One arena with a fixed offset for each value: what the offsets of a program
  // of stage `allocated` take, and those that the executor gives others
  // (ir/place_blocks.h). Values share bytes where the program orders them;
  // simulated time orders nothing.
  int64_t arena_bytes = 0;
  // With what libraries and kernels take (library_memory.h).
  int64_t device_bytes = 0;
  double peak_at_us = 0;  // of live bytes
};

// What allocators and arenas round to; kernels want their operands aligned.
inline constexpr int64_t kAllocationBytes = 512;

// `result` is the replay of `program`.
MemoryReport ReportMemory(const Program& program, const SimResult& result,
                          const Machine& machine);

}  // namespace asyra
