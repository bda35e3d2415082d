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
  // Recorded inputs: they bind symbolic dimensions of an .onnx file that `dims`
  // leaves open, and give data to weights that have none.
  NamedTensors recorded;
  // Shapes of inputs that are given otherwise: they bind dimensions too, by the
  // names of their inputs, which the model has to have.
  std::vector<std::pair<std::string, Shape>> given_shapes;
  std::vector<std::string> given_inputs;  // names, of those without a shape too
  int64_t dp = 1, tp = 1, sp = 1, ep = 1;
  // "dp=2,tp=4", outermost first, instead of the flags above.
  std::optional<std::string> mesh;
  std::optional<int64_t> ranks;  // available devices
  std::string shard;             // pins, as ReadPins takes them
  // The options of plan_sharding.
  std::string tp_strategy = "auto", ep_strategy = "all_to_all";
  std::string stripes = "auto";
  bool propagate = false;  // from `shard`, instead of plan_sharding
  std::string padding;     // as that of ShardingOptions
  std::string machine = "h200x8";
  std::vector<std::string> set;  // edits of the machine, "gpu.hbm_gbps=4000"
  int64_t nodes = 0;             // 0: as many as the mesh takes
  bool graph = false;            // ops are issued as a captured graph
  // "threads", "processes", or "auto": as they were started, else threads.
  std::string ranks_as = "auto";
  // The same as in ScheduleOptions (passes/search/schedule.h).
  int tiles = 0;
  std::string tile_dim = "auto", scheduler = "auto";
  bool bucket = true;
  bool overlap = false;
  bool no_overlap = false;
  bool join = true;
  std::string phases = "auto";  // or kPhasesInterleaved, kPhasesApart
  bool fuse = true;  // ops into one kernel where that pays (passes/fuse/fuse.h)
  // The matmuls that take part in it: measured, estimated or none.
  std::string epilogues = "measured";
  // The way a reduce_scatter reduces, as in CompileOptions.
  std::string reduce_scatter = "auto";
  // Collectives over several hosts, as in CompileOptions.
  std::string over_hosts = "auto";
  std::string key_walk = "auto";
  int64_t head_parts = 0;
  int search_steps = kSearchSteps;
  // Schedules that are kept beside the one taken, for a gate on measured steps.
  int runners_up = 0;
  double capacity_gib = -1;  // of a device, as CapacityBytes takes it
  // Schedules that do not fit `capacity_gib` are allowed: the caller reports
  // them.
  bool allow_misfit = false;
  // An alternative with a measured cost is preferred to one estimated by a
  // formula.
  bool measured_only = false;
  int64_t expert_capacity = 0;        // percent of an even share; 0: no drops
  std::string mask_padding = "any";   // any, or right
  int64_t documents = 0;              // of a row, about; 0: it has none
  std::string dtype;                  // as CompileOptions has it
  std::optional<TrainOptions> train;  // none: the model as it is
  bool estimate = false;              // no schedule is searched
  std::string passes;                 // instead of the default pipeline
  std::string print_after, dump_dir;  // as PassManagerOptions has them
  bool print_changed = false, simulate_each = false;
  // Files in `dump_dir` are numbered over all compilations with these flags.
  std::shared_ptr<int> dumped = std::make_shared<int>(0);
  // Called with a description of each phase as it begins; may be empty.
  std::function<void(const std::string&)> progress;
};

inline constexpr char kRanksAsProcesses[] = "processes";
inline constexpr char kPhasesInterleaved[] = "interleaved";
inline constexpr char kPhasesApart[] = "apart";

// Adds MODEL.
void AddModelFlag(CLI::App& app, CompileFlags* flags);
// Adds the flags of the other options.
void AddCompileFlags(CLI::App& app, CompileFlags* flags);
// Adds --estimate, to tools that run nothing.
void AddEstimateFlag(CLI::App& app, CompileFlags* flags);

// Checks a flag in GiB, for CLI11: empty if CheckGib takes the number.
std::string CheckGibText(const std::string& text);

// `set` and `nodes` as LoadMachine takes them.
std::vector<std::string> MachineEdits(const CompileFlags& flags);

// Returns the options by which the cost of programs is estimated.
CostOptions CostsOf(const CompileFlags& flags);

// The data axes (dp, sp or both) whose product equals --ep: experts are sharded
// over them. Empty if ep is an axis of its own: no product is equal, or --ranks
// requires it.
std::string ExpertAxes(const CompileFlags& flags);

// The mesh that --mesh, or --dp to --ep, ask for; without axes where none.
// Compile may reorder the axes of the latter (passes/search/mesh_order.h).
// Errors name the flag: sizes below 1, repeated or invalid names, too many axes
// or devices.
absl::StatusOr<Mesh> MeshOf(const CompileFlags& flags);

// A model that is a program already: an .asyra file.
bool IsProgramFile(const CompileFlags& flags);

// Error unless `mesh` has as many devices as --ranks says.
absl::Status CheckRanks(const CompileFlags& flags, const Mesh& mesh);

// "--dim NAME=SIZE" by name.
absl::StatusOr<std::map<std::string, int64_t>> ParseDims(
    const std::vector<std::string>& dims);

// The options of the compiler. Errors name the flag.
absl::StatusOr<CompileOptions> OptionsOf(const CompileFlags& flags);

}  // namespace asyra
