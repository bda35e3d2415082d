// Memory of a replayed program on one device: live bytes over time, the values
// alive at the peak, and the total after rounding, placement and the memory of
// libraries.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"
#include "simulator/machine/machine.h"
#include "simulator/replay/costed_program.h"

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
// over; outputs stay to the end. Views and waits share the buffer of their
// operand (ir/memory/buffer_map.h). An output that aliases a state input is
// written in place, and so is a result that is planned to overwrite an operand,
// or is a matmul added to what nothing else reads (ir/accumulation.h). At one
// instant, frees come before allocations.
MemoryProfile ReplayMemory(const CostedProgram& costed,
                           absl::Span<const OpSpan> spans);

// Bytes of a device that are resident throughout the step: inputs of all roles.
int64_t ResidentBytes(const Program& program);

struct LiveBuffer {
  ValueId value = kNoValue;  // whose buffer it is; views have none
  int64_t bytes = 0;
};

// The buffers live at `time_us`, largest first; their sum is `live_bytes` of
// the current point.
std::vector<LiveBuffer> LiveBuffersAt(const Program& program,
                                      absl::Span<const OpSpan> spans,
                                      double time_us);

// Four answers to "how much memory", each at least the one before.
struct MemoryReport {
  int64_t live_bytes = 0;     // the peak of MemoryProfile
  int64_t rounded_bytes = 0;  // with allocations rounded to kArenaAlignment
  // One arena with a fixed offset for each value: of a program of stage
  // `allocated` its own offsets, otherwise those that the executor chooses
  // (ir/memory/place_blocks.h). Values share bytes where happens-before orders
  // them, independent of simulated time.
  int64_t arena_bytes = 0;
  // With the memory of libraries and kernels (library_memory.h).
  int64_t device_bytes = 0;
  double peak_at_us = 0;  // of live bytes
};

// `result` is the replay of `program`. With `enough_bytes` the arena is the
// first one found with which device_bytes are no more: whether the step fits is
// known sooner. If there is none, results in place are tried too, which may
// take less than live_bytes.
MemoryReport ReportMemory(const Program& program, const SimResult& result,
                          const Machine& machine, int64_t enough_bytes = 0);

}  // namespace asyra
