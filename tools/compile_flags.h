// The flags of the command line tools that say what to compile and how.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "ir/mesh.h"
#include "passes/compile.h"
#include "tools/weight_data.h"

namespace asyra {

struct CompileFlags {
  std::string model;              // .onnx, .asyra, or a built-in model's name
  std::vector<std::string> dims;  // "batch=4"
  std::string data, weights;      // as ImportOptions has them
  // Inputs as they are recorded: those of an .onnx file bind the symbolic
  // dimensions that `dims` leaves open, and weights without data get theirs.
  NamedTensors recorded;
  int64_t dp = 1, tp = 1, sp = 1, ep = 1;
  // "dp=2,tp=4", outermost first, instead of these.
  std::optional<std::string> mesh;
  std::optional<int64_t> ranks;  // devices there are
  std::string shard;             // pins, as ReadPins takes them
  // As the options of plan_sharding.
  std::string tp_strategy = "auto", ep_strategy = "all_to_all";
  bool propagate = false;  // from `shard`, instead of plan_sharding
  std::string machine = "h200x8";
  std::vector<std::string> set;  // edits of the machine, "gpu.hbm_gbps=4000"
  int64_t nodes = 0;             // 0: as many as the mesh takes
  bool graph = false;            // ops are issued as a captured graph
  // As ScheduleOptions has them (passes/schedule/schedule.h).
  int tiles = 0;
  std::string tile_dim = "auto", scheduler = "auto";
  bool bucket = true;
  bool join = true;
  bool fuse = true;  // ops into one kernel where that pays (passes/fuse/fuse.h)
  // Which matmuls take part in it: measured, estimated or none.
  std::string epilogues = "measured";
  // Where a reduce_scatter adds up, as CompileOptions has it.
  std::string reduce_scatter = "auto";
  int search_steps = kSearchSteps;
  double capacity_gib = -1;  // of a device, as CapacityBytes takes it
  // Schedules what does not fit `capacity_gib` as well: the caller says so.
  bool allow_misfit = false;
  // Nothing is chosen for a cost that nobody measured where there is a
  // measured one.
  bool measured_only = false;
  int64_t expert_capacity = 0;        // percent of an even share; 0: no drops
  std::string dtype;                  // as CompileOptions has it
  std::optional<TrainOptions> train;  // none: the model as it is
  std::string passes;                 // instead of the default pipeline
  std::string print_after, dump_dir;  // as PassManagerOptions has them
  bool print_changed = false, simulate_each = false;
  // Files in `dump_dir` are numbered over all that is compiled with these
  // flags.
  std::shared_ptr<int> dumped = std::make_shared<int>(0);
  // Told what is begun; may be empty.
  std::function<void(const std::string&)> progress;
};

// Adds MODEL.
void AddModelFlag(CLI::App& app, CompileFlags* flags);
// Adds the flags of the other options.
void AddCompileFlags(CLI::App& app, CompileFlags* flags);

// Of a flag in GiB, for CLI11: empty if it is a number of at least 0. Unlike
// CLI::NonNegativeNumber it takes no nan.
std::string CheckGib(const std::string& text);

// `set` and `nodes` as LoadMachine takes them.
std::vector<std::string> MachineEdits(const CompileFlags& flags);

// The data axes, dp and sp, one or both, whose product --ep is: experts are
// over them. Empty where it is an axis of its own: where there are none, or
// --ranks counts it as one.
std::string ExpertAxes(const CompileFlags& flags);

// The mesh that --mesh, or --dp to --ep, ask for; without axes where none.
// Compile may order the axes of the latter anew (passes/mesh_order.h).
// Errors name the flag: sizes below 1, a name given twice or that is none,
// more axes or devices than there can be.
absl::StatusOr<Mesh> MeshOf(const CompileFlags& flags);

// Error unless `mesh` has as many devices as --ranks says.
absl::Status CheckRanks(const CompileFlags& flags, const Mesh& mesh);

// "--dim NAME=SIZE" by name.
absl::StatusOr<std::map<std::string, int64_t>> ParseDims(
    const std::vector<std::string>& dims);

// What the compiler is asked for. Errors name the flag.
absl::StatusOr<CompileOptions> OptionsOf(const CompileFlags& flags);

}  // namespace asyra
