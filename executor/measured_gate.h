// The gate on measured steps: of programs that compute the same, the one whose
// steps are fastest on this machine is kept, whatever a simulator has said.
//
//   std::vector<GateProgram> programs = {
//       {"scheduled", &scheduled, inputs}, {"unscheduled", &plain, inputs}};
//   ASYRA_ASSIGN_OR_RETURN(
//       GateResult gate,
//       ChooseByMeasuring(programs, device, world, weights,
//                         {.cache = &DiskCache::OfProcess()}));
//   auto executor = Executor::Load(*programs[gate.kept].program);
//
// Every rank calls it, with the same programs in the same order. The programs
// run in turn, a step of each, so that other load and the clocks of devices
// affect all of them equally. A step lasts as long as on its slowest rank; the
// lowest median is kept, on all ranks. The decision is remembered by programs
// and machine, so that a second start runs what the first one has kept without
// measuring again.
//
// Nothing of the caller is changed: trials have params and states of their own.
// So it is called before the memory of the run is reserved.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/comm/communicator.h"
#include "executor/device.h"
#include "executor/state_set.h"
#include "executor/tuning/disk_cache.h"
#include "ir/program.h"
#include "ir/weights/weight_store.h"

namespace asyra {

struct GateProgram {
  std::string name;  // of reports and errors, without line ends and tabs
  const Program* program = nullptr;  // outlives the call
  // This rank's data inputs, in the order of Executor::inputs(). They are the
  // same values for all programs, as each shards them.
  std::vector<Tensor> inputs;
};

struct GateOptions {
  int64_t steps = 7;   // of each program, that count
  int64_t warmup = 2;  // of each before them
  // Cache of decisions, of the first rank; null: none are kept. Outlives the
  // call.
  DiskCache* cache = nullptr;
  // Measures also what is remembered, and replaces it.
  bool again = false;
  // Ranks that take memory of the same device.
  int64_t sharing = 1;
  // Gives states and params their first values once all programs that share
  // `states` have joined; null: states begin as zeros, params with their data.
  // All ranks call it, once for each such set.
  std::function<absl::Status(StateSet& states)> set_states;
  // Clock of tests; null: the system's steady clock.
  std::function<double()> now_us;
};

struct GateTrial {
  std::string name;
  // Times of the steps that count; 0 where it was not measured.
  double median_us = 0, min_us = 0;
  // The reason why it was not measured; empty: it was.
  std::string left_out;
};

struct GateResult {
  size_t kept = 0;          // index into the programs
  bool remembered = false;  // by an earlier start: `trials` are of that one
  std::vector<GateTrial> trials;  // in the order of the programs
};

// `world` is null where the mesh is one device. Programs that do not fit the
// memory left are not measured, and not kept; those that do not fit together
// run one after the other instead of in turn. Programs that shard params and
// states alike share them; others have their own.
// Errors: no program, one of another mesh or whose params and states have other
// shapes than the first one's, ranks with other programs, none that fits; those
// of Executor::Prepare and Step, after the program's name.
absl::StatusOr<GateResult> ChooseByMeasuring(
    absl::Span<const GateProgram> programs, Device& device, Communicator* world,
    const WeightStore* weights, const GateOptions& options = {});

// "kept unscheduled (remembered): median 4.1 ms, 18.0 % less than scheduled
// (5.0 ms)": a line, with what was left out and why.
std::string ToString(const GateResult& result);

}  // namespace asyra
