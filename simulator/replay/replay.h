// Replays a costed program on one representative rank: streams, the host that
// issues to them, collectives, and contention between concurrent ops. Costs are
// separate so that a search replays many orders fast.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"
#include "simulator/cost/cost_model.h"
#include "simulator/replay/bound.h"
#include "simulator/replay/costed_program.h"
#include "simulator/replay/memory.h"

namespace asyra {

struct OpSpan {
  int op = 0;  // index in the program
  StreamId stream = kNoStream;
  double start_us = 0;
  double end_us = 0;  // equal to the start for views and the like
  // The last wait: the op whose end let it start, or -1, and the kind of wait.
  // From the last op to end, these links form the critical path.
  enum Cause : uint8_t { kBegin, kHost, kStream, kCommunicator, kData };
  int after = -1;
  Cause cause = kBegin;
};
std::string_view ToString(OpSpan::Cause cause);

// Communication over one set of mesh axes.
struct AxesExposure {
  AxisList axes;
  double comm_us = 0;     // some such collective runs
  double exposed_us = 0;  // and no computation does
};

struct SimResult {
  double makespan_us = 0;
  double compute_us = 0;       // some computation runs
  double comm_us = 0;          // some collective runs
  double exposed_comm_us = 0;  // some collective and no computation
  double bubble = 0;           // 1 - compute_us / makespan_us
  // 0 where the machine's power is not known, and from Replay.
  double clock_mhz = 0;
  double watts = 0;           // in the mean over the step
  double lower_bound_us = 0;  // the largest of `bounds`
  LowerBounds bounds;
  int64_t peak_bytes = 0;    // inputs and weights included
  int64_t weight_bytes = 0;  // weights and state
  int ops = 0;               // kernels: what costs time, collectives too
  int collectives = 0;
  std::vector<OpSpan> spans;  // one per op, in the program's order
  std::vector<AxesExposure> exposed;
  // Time alone of the ops estimated from each OpCost::Source.
  std::array<double, OpCost::kNumSources> source_us = {};
  // The time that each resource would be busy with all ops at full use; divided
  // by the makespan, its utilisation.
  std::array<double, kNumResources> resource_us = {};
  // Ops of the critical path in order of time, with those that take no time.
  std::vector<int> critical_path;
  // Costs of the ops alone; filled by Simulate, empty from Replay.
  std::vector<OpCost> op_costs;
  std::vector<MemoryPoint> memory;  // live bytes over time
};

struct ReplayOptions {
  // Ops that run together share SMs, memory and links.
  bool contention = true;
  // Host time per op relative to eager issue; 0 for a captured graph.
  double launch_scale = 1;
  // Peak and timeline of memory; not needed by a search that considers only
  // time.
  bool memory = true;
  bool lower_bound = true;
  bool critical_path = true;
  // The replay is given up as soon as it is certain to take longer. Then the
  // makespan is some lower bound that is longer, and nothing else is filled.
  double limit_us = std::numeric_limits<double>::infinity();
};

// Stages local (one stream; collectives block it) and scheduled or allocated.
// `op_costs` has one entry per op of the program. Rules:
// - program order is issue order; each stream runs its ops in that order, one
//   at a time; an op starts no earlier than the host has issued it;
// - an op starts once its operands and all ops in `after` have ended; a future
//   is available when its collective has ended;
// - collectives over the same axes run in issue order, one at a time, on
//   whichever streams they are.
// Deterministic. Linear in ops and edges, times the number of streams.
SimResult Replay(const Program& program, absl::Span<const OpCost> op_costs,
                 const ReplayOptions& options = {});

// The same for a costed program, its ops issued in `order`: indices of all ops,
// each after those that define its operands. For searches over orders.
SimResult Replay(const CostedProgram& costed, absl::Span<const int> order,
                 const ReplayOptions& options = {});
SimResult Replay(const CostedProgram& costed,
                 const ReplayOptions& options = {});

}  // namespace asyra
