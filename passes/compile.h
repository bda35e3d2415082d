// The compiler: a model as a global program in, the program that the executor
// runs out. Reads no files and prints nothing; tools/compile.h does that for
// the command line. The whole pipeline, in order, is in compile.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/dim_names.h"
#include "ir/mesh.h"
#include "ir/op_sources.h"
#include "ir/program.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/schedule/recompute_search.h"
#include "passes/schedule/schedule.h"
#include "simulator/cost_model.h"
#include "simulator/simulate.h"

namespace asyra {

struct CompileOptions {
  int64_t expert_capacity = 0;  // percent of an even share; 0: no drops
  std::string dtype;  // that floats are computed in; empty: as they are
  std::optional<TrainOptions> train;  // none: the model's own outputs
  ShardingOptions sharding;
  // The axes of the mesh may be reordered over hosts (mesh_order.h).
  bool order_axes = false;
  bool fuse = true;  // ops into one kernel where that pays
  // Which matmuls get bias, residual and activation as their epilogue:
  // "measured", "estimated" or "none", as the pass fuse has it.
  std::string epilogues = "measured";
  // How a reduce_scatter reduces: "fused", in the collective; "decomposed", in
  // an op after an all_to_all; "auto", whichever simulates faster.
  std::string reduce_scatter = "auto";
  // Collectives over several hosts: "flat", as one; "hierarchical", inside and
  // across hosts (shard/decompose_over_hosts.h); "auto", whichever simulates
  // faster.
  std::string over_hosts = "auto";
  // An alternative with a measured cost is preferred to one estimated by a
  // formula.
  bool measured_only = false;
  // Of these `streams`, `closed` and `manager` are set by Compile. Of the
  // `runners_up` are those that can take the program's place, over its mesh.
  ScheduleOptions schedule;
  CostOptions costs;
  // A pipeline that replaces everything after Raise; empty: none.
  std::string passes;
  PassManagerOptions manager;
  // Called with a description of each phase as it begins; may be empty.
  std::function<void(const std::string&)> progress;
};

// A model before sharding, to be compiled for several meshes and machines.
struct RaisedProgram {
  Program program;  // unchanged if of a later stage, or with `passes`
  std::vector<std::string> remarks;
  std::vector<PassTiming> timings;
  DimNames dim_names;
  OpSources op_sources;
};
// `dim_names` are the names that the model's file gives dimensions of its
// inputs, `op_sources` what it computes values with. Errors: those of the
// passes.
absl::StatusOr<RaisedProgram> Raise(Program model,
                                    const CompileOptions& options,
                                    const DimNames& dim_names = {},
                                    const OpSources& op_sources = {});

struct CompileResult {
  // The local program before scheduling, of the sharding that costs least
  // unscheduled: the baseline. None if there was no local stage.
  std::optional<Program> partitioned;
  // Of the sharding that was taken, which may be another one: with the params
  // and states of `program`, whose place it can take.
  std::optional<Program> unscheduled;
  Program program;  // stage allocated, unless `passes`
  // Where the default pipeline ran; its runners_up are of stage allocated.
  std::optional<ScheduleResult> schedule;
  // What backward computes again instead of keeping it; none: nothing.
  std::optional<RecomputeReport> recompute;
  // Of the sharding that was taken: --tp-strategy, and the level of ZeRO.
  std::string tp_strategy;
  int zero = 0;
  // SearchNoise of the schedule and of the others that were tried; 0 if none
  // was searched.
  double noise = 0;
  // The step of `program`, where its stage can be simulated.
  std::optional<SimResult> simulated;
  std::vector<std::string> remarks;
  std::vector<PassTiming> timings;
  std::unique_ptr<CostModel> costs;  // of the machine and the final mesh
};

// A local program is only scheduled, one that is scheduled is only simulated;
// their mesh is their own and `mesh` must have no axes.
// Errors: a mesh that does not fit the machine, pins that are wrong, those of
// the passes and of Schedule.
absl::StatusOr<CompileResult> Compile(const RaisedProgram& model,
                                      const Mesh& mesh, const Machine& machine,
                                      const CompileOptions& options);

// The options that Compile gives to Schedule.
ScheduleOptions ScheduleOptionsOf(const CompileOptions& options);

}  // namespace asyra
