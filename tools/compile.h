// The compile path of the command line tools: a model in, a scheduled program
// and what the simulator says of it out.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass_manager.h"
#include "passes/schedule.h"
#include "simulator/cost_model.h"

namespace asyra {

struct CompileOptions {
  std::string model;              // .onnx, .asyra, or a built-in model's name
  std::vector<std::string> dims;  // "batch=4"
  int64_t dp = 1, tp = 1, sp = 1, ep = 1;
  // "dp=2,tp=4", outermost first, instead of these.
  std::optional<std::string> mesh;
  std::optional<int64_t> ranks;  // devices there are
  std::string shard;             // pins, as ReadPins takes them
  // As the options of plan_sharding.
  std::string tp_style = "auto", ep_style = "all_to_all";
  bool propagate = false;  // from `shard`, instead of plan_sharding
  std::string machine = "h200x8";
  std::vector<std::string> set;  // edits of the machine, "gpu.hbm_gbps=4000"
  int64_t nodes = 0;             // 0: as many as the mesh takes
  bool graph = false;            // ops are issued as a captured graph
  // As ScheduleOptions has them (passes/schedule.h).
  int tiles = 0;
  std::string tile_dim = "auto", scheduler = "auto";
  bool bucket = true;
  bool join = true;
  bool fuse = true;  // ops into one kernel where that pays (passes/fuse.h)
  // Which products take part in it: measured, priced or none.
  std::string epilogues = "measured";
  // Where a reduce_scatter is summed: collective, apart or auto.
  std::string sums = "auto";
  int search_steps = ScheduleOptions().search_steps;
  double memory_gib = 0;  // budget of a device; 0: what it has
  // Nothing is chosen for a price that nobody measured where there is a
  // measured one.
  bool measured_only = false;
  int64_t expert_capacity = 0;  // percent of an even share; 0: no drops
  std::string passes;           // instead of the default pipeline
  std::string print_after;
  // Told what is begun; may be empty.
  std::function<void(const std::string&)> progress;
};

// Adds MODEL.
void AddModelFlag(CLI::App& app, CompileOptions* options);
// Adds the flags of the other options.
void AddCompileFlags(CLI::App& app, CompileOptions* options);

// Of a flag in GiB, for CLI11: empty if it is a number of at least 0. Unlike
// CLI::NonNegativeNumber it takes no nan.
std::string CheckGib(const std::string& text);

// `set` and `nodes` as LoadMachine takes them.
std::vector<std::string> MachineEdits(const CompileOptions& options);

struct CompileResult {
  Program imported;  // as it came in
  Program raised;    // fused meanings; equal to `imported` in later stages
  // Before it was scheduled; none if it did not become local.
  std::optional<Program> partitioned;
  Program program;                         // the result
  std::optional<ScheduleResult> schedule;  // where the default one ran
  // What the simulator says of `program` where its stage can be simulated.
  std::optional<SimResult> simulated;
  std::vector<std::string> remarks;
  std::vector<PassTiming> timings;
  std::unique_ptr<CostModel> costs;
};

// The mesh that --mesh, or --dp to --ep, ask for; without axes where none.
// Compile may order the axes of the latter anew (mesh_order.h).
// Errors name the flag: sizes below 1, a name given twice or that is none,
// more axes or devices than there can be.
absl::StatusOr<Mesh> MeshOf(const CompileOptions& options);

// Error unless `mesh` has as many devices as --ranks says.
absl::Status CheckRanks(const CompileOptions& options, const Mesh& mesh);

// The model alone: read, imported or built. Of the options, `model`, `dims`
// and `expert_capacity` matter.
absl::StatusOr<Program> LoadModel(const CompileOptions& options);

// A model before mesh and machine matter, to be compiled for several.
struct RaisedModel {
  Program imported;
  Program raised;  // equal to `imported` in later stages, or with --passes
  std::vector<std::string> remarks;
  std::vector<PassTiming> timings;
};
absl::StatusOr<RaisedModel> LoadRaised(const CompileOptions& options);

// What is wrong with the machine's name and edits, or the mesh: to be said
// before a model is read, which may take long.
absl::Status CheckTarget(const CompileOptions& options);

// A program file that is partitioned already is only scheduled, and one that
// is scheduled is only simulated; mesh flags are then refused. `model` is of
// the same `model`, `dims`, `expert_capacity` and `passes`; it may be shared
// by threads.
absl::StatusOr<CompileResult> Compile(const CompileOptions& options,
                                      const RaisedModel& model);
absl::StatusOr<CompileResult> Compile(const CompileOptions& options);

}  // namespace asyra
