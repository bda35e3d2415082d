// The options of the compiler (compile.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/search/schedule_options.h"
#include "simulator/cost/cost_model.h"
#include "simulator/machine/machine.h"

namespace asyra {

// The number of best schedules, beside the one taken, that a gate on measured
// steps tries.
inline constexpr int kGateRunnersUp = 2;

struct CompileOptions {
  int64_t expert_capacity = 0;  // percent of an even share; 0: no drops
  // Rows of padding masks are ones, then zeros, which each step checks: they
  // become lengths (raise/masks_as_lengths.h).
  bool pads_right = false;
  // Documents that a row has, about, of which tokens see their own alone
  // (raise/mask_documents.h); 0: rows are not of documents.
  int64_t documents = 0;
  std::string dtype;  // that floats are computed in; empty: as they are
  std::optional<TrainOptions> train;  // none: the model's own outputs
  ShardingOptions sharding;
  // The axes of the mesh may be reordered over hosts (mesh_order.h).
  bool order_axes = false;
  // With order_axes: an axis of tokens may become two
  // (search/factor_sequence.h).
  bool factor_sequence = true;
  bool fuse = true;  // ops into one kernel where that pays
  // The matmuls that get bias, residual and activation as their epilogue:
  // "measured", "estimated" or "none", as the pass fuse has it.
  std::string epilogues = "measured";
  // The place where a reduce_scatter reduces: "fused", in the collective;
  // "decomposed", in an op after an all_to_all; "auto", whichever simulates
  // faster.
  std::string reduce_scatter = "auto";
  // Collectives over several hosts: "flat", as one; "hierarchical", inside and
  // across hosts (shard/decompose_over_hosts.h); "auto", whichever simulates
  // faster.
  std::string over_hosts = "auto";
  // Keys of a sequence that is sharded: "never", they are gathered before
  // attention; a number, they come in so many parts (shard/walk_keys.h);
  // "auto", whichever simulates faster.
  std::string key_walk = "auto";
  // The parts of the heads in which attention is exchanged and computed
  // (shard/split_heads.h); 1: whole; 0: over several
  // hosts whichever simulates faster.
  int64_t head_parts = 0;
  // An alternative with a measured cost is preferred to one estimated by a
  // formula.
  bool measured_only = false;
  // Options of the schedule. `streams`, `closed` and `manager` are set by
  // Compile. `runners_up` are only those that can take the program's place,
  // over its mesh.
  ScheduleOptions schedule;
  CostOptions costs;
  // Another machine, whose schedule is tried too (search/neighbours.h): a
  // better machine is then not slower. `name` is said of a schedule found for
  // it.
  struct Neighbour {
    Machine machine;
    std::string name;
  };
  std::optional<Neighbour> neighbour;
  // The step is estimated without a schedule (search/estimate_step.h).
  bool estimate = false;
  // A pipeline that replaces everything after Raise; empty: none.
  std::string passes;
  PassManagerOptions manager;
  // Called with a description of each phase as it begins; may be empty.
  std::function<void(const std::string&)> progress;
};

// Returns the options that Compile gives to Schedule.
ScheduleOptions ScheduleOptionsOf(const CompileOptions& options);

}  // namespace asyra
