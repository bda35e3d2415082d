#include "tools/compile_flags.h"

#include <charconv>
#include <cmath>

#include "CLI/CLI.hpp"
#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "ir/support/status.h"
#include "models/models.h"
#include "passes/schedule/order/order_search.h"
#include "passes/schedule/order/reorder.h"
#include "simulator/machine/machine.h"
#include "simulator/machine/machine_file.h"
#include "simulator/replay/library_memory.h"

namespace asyra {
namespace {

std::vector<std::string> ReduceScatterStrategies() {
  return {"auto", "fused", "decomposed"};
}

std::vector<std::string> OverHostsForms() {
  return {"auto", "flat", "hierarchical"};
}

// "NAME=SIZE", parsed: without NAME= the name is empty; a size that is no
// integer of at least 0 is -1.
struct NamedSize {
  std::string name;
  int64_t size = -1;
};

NamedSize ReadNamedSize(std::string_view text) {
  size_t equal = text.find('=');
  if (equal == std::string_view::npos) return {};
  NamedSize read{std::string(text.substr(0, equal))};
  std::string_view digits = text.substr(equal + 1);
  int64_t size = 0;
  const char* end = digits.data() + digits.size();
  auto [at, error] = std::from_chars(digits.data(), end, size);
  if (error == std::errc() && at == end && size >= 0) read.size = size;
  return read;
}

// "dp=2,tp=4".
absl::StatusOr<Mesh> ReadMesh(const std::string& text) {
  std::vector<Mesh::Axis> axes;
  std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    NamedSize axis = ReadNamedSize(part);
    if (axis.name.empty() || axis.size < 1) {
      return Invalid(
          "--mesh {}: expected NAME=SIZE with a size of at least 1, got '{}'; "
          "asyra-sim sweep compares meshes",
          text, part);
    }
    axes.push_back({axis.name, axis.size});
  }
  absl::StatusOr<Mesh> mesh = Mesh::Create(std::move(axes));
  if (!mesh.ok()) return Annotate(mesh.status(), "--mesh");
  return mesh;
}

// Says how a mesh for `ranks` devices is found: "; give its axes, ...".
std::string MeshHint(int64_t ranks) {
  if (ranks < 2) return "";
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= ranks && sizes.size() < 12; ++size) {
    if (ranks % size == 0) sizes.push_back(size);
  }
  std::string all = absl::StrJoin(sizes, ",");
  return fmt::format(
      "; give its axes, as --dp {0} does, or compare meshes: asyra-sim sweep "
      "MODEL --ranks {0} --grid dp={1} --grid tp={1}",
      ranks, all);
}

// The parts of --help, as docs/cli.md has them.
constexpr std::pair<const char*, const char*> kGroups[] = {
    {"Model",
     "--dim --data --weights --dtype --expert-capacity --padding "
     "--documents"},
    {"Mesh", "--dp --tp --sp --ep --mesh --ranks"},
    {"Sharding", "--shard --propagate --tp-strategy --ep-strategy"},
    {"Machine",
     "--machine --ranks-as --nodes --graph --set --memory-gib --capacity"},
    {"Schedule",
     "--search-steps --tiles --tile-dim --scheduler --overlap --no-overlap "
     "--bucket --join --fuse --phases --epilogues --reduce-scatter "
     "--over-hosts"},
    {"Passes",
     "--passes --print-after --print-changed --dump-dir --simulate-each"},
};

void GroupFlags(CLI::App& app) {
  for (auto [group, flags] : kGroups) {
    std::vector<std::string> names = absl::StrSplit(std::string(flags), ' ');
    for (const std::string& name : names) app.get_option(name)->group(group);
  }
}

}  // namespace

absl::StatusOr<std::map<std::string, int64_t>> ParseDims(
    const std::vector<std::string>& dims) {
  std::map<std::string, int64_t> sizes;
  for (const std::string& text : dims) {
    NamedSize dim = ReadNamedSize(text);
    if (dim.name.empty()) {
      return Invalid("--dim {}: expected NAME=SIZE", text);
    }
    if (dim.size < 0) {
      return Invalid("--dim {}: the size must be an integer of at least 0",
                     text);
    }
    if (!sizes.emplace(dim.name, dim.size).second) {
      return Invalid("--dim {}: the dimension is given twice", text);
    }
  }
  return sizes;
}

std::string CheckGibText(const std::string& text) {
  double gib = -1;
  if (!absl::SimpleAtod(text, &gib)) return text + " is no number";
  return std::string(MessageOf(CheckGib(gib)));
}

void AddModelFlag(CLI::App& app, CompileFlags* flags) {
  app.add_option("MODEL", flags->model,
                 "an .onnx or .asyra file, a config.json of Hugging Face or "
                 "its folder, "
                 "or a built-in model: " +
                     BuiltinModelNames())
      ->required();
}

void AddCompileFlags(CLI::App& app, CompileFlags* flags) {
  app.add_option(
         "--dim", flags->dims,
         "NAME=SIZE: binds a symbolic dimension; may be repeated. Those "
         "that are expressions of others follow: 'past + 1' of past")
      ->take_all();
  app.add_option("--data", flags->data,
                 "REGEX: inputs of an .onnx file whose names match are data, "
                 "given at each step");
  app.add_option("--weights", flags->weights,
                 "REGEX: inputs of an .onnx file whose names match are "
                 "weights, given once; by default inputs are data, unless the "
                 "file has no weights of its own");
  app.add_option("--dtype", flags->dtype,
                 "the float type of the computation, whatever the model's is")
      ->check(CLI::IsMember({"f64", "f32", "bf16", "f16"}));
  app.add_option("--dp", flags->dp, "data parallel devices (batch)");
  app.add_option("--tp", flags->tp, "tensor parallel devices (weights)");
  app.add_option("--sp", flags->sp, "sequence parallel devices (tokens)");
  app.add_option("--ep", flags->ep,
                 "expert parallel devices: over dp, sp or both if their "
                 "product is equal, else an axis of its own");
  app.add_option("--mesh", flags->mesh,
                 "NAME=SIZE,...: axes by name, neighbours along the last share "
                 "a host first; dp, tp, sp and ep shard what their flags do, "
                 "others anything")
      ->excludes("--dp", "--tp", "--sp", "--ep");
  app.add_option("--ranks", flags->ranks,
                 "how many devices there are; another mesh is refused");
  app.add_option("--shard", flags->shard,
                 "'REGEX=DIM@AXIS,...;REGEX=whole': fixes how values whose "
                 "names match are sharded");
  app.add_flag("--propagate", flags->propagate,
               "shards only what follows from --shard, without costs")
      ->needs("--shard");
  app.add_option("--tp-strategy", flags->tp_strategy,
                 "norms between weights under tp: sequence (sharded along the "
                 "tokens), replicated, or auto, whichever costs less")
      ->check(CLI::IsMember({"auto", "sequence", "replicated"}))
      ->capture_default_str();
  app.add_option("--stripes", flags->stripes,
                 "an early and a late part of the tokens for each device under "
                 "sp, so that all see equally many keys: never, always, or "
                 "auto, where it costs less")
      ->check(CLI::IsMember({"auto", "never", "always"}))
      ->capture_default_str();
  app.add_option("--ep-strategy", flags->ep_strategy,
                 "how tokens reach their experts: all_to_all, all_gather (and "
                 "reduce_scatter), or auto, whichever costs less")
      ->check(CLI::IsMember({"auto", "all_to_all", "all_gather"}))
      ->capture_default_str();
  app.add_option("--machine", flags->machine,
                 "a known machine or a .machine file: " +
                     absl::StrJoin(ListMachines(), ", "))
      ->capture_default_str();
  app.add_option("--ranks-as", flags->ranks_as,
                 "threads of a process, or processes: copy engines connect "
                 "those only where the machine has host.process_copies; auto: "
                 "as they were started, else threads")
      ->check(CLI::IsMember({"auto", "threads", "processes"}))
      ->capture_default_str();
  app.add_option("--nodes", flags->nodes,
                 "number of hosts; 0: as many as the mesh needs");
  app.add_flag("--graph", flags->graph,
               "ops are issued as a captured graph, not one by one");
  app.add_option("--set", flags->set,
                 "KEY=VALUE or KEY*=FACTOR: changes a number of the machine, "
                 "gpu.hbm_gbps=4000; nvlink*=F, pcie*=F, matrix*=F and "
                 "launch*=F multiply all numbers of a group; may be repeated")
      ->take_all();
  app.add_option("--tiles", flags->tiles,
                 "number of tiles; 0: the fastest by simulation")
      ->capture_default_str();
  app.add_option("--tile-dim", flags->tile_dim,
                 "what tiles cut: batch, sequence, or auto, the batch if it "
                 "can be tiled")
      ->check(CLI::IsMember({"auto", "batch", "sequence"}))
      ->capture_default_str();
  std::vector<std::string> schedulers = Schedulers();
  schedulers.insert(schedulers.begin(), "auto");
  app.add_option("--scheduler", flags->scheduler,
                 "order of issue: auto searches, the others are baselines")
      ->check(CLI::IsMember(schedulers))
      ->capture_default_str();
  app.add_flag("--bucket,!--no-bucket", flags->bucket,
               "merges tiles and joins collectives where that pays");
  CLI::Option* overlap = app.add_flag(
      "--overlap", flags->overlap,
      "tries collectives and what computes beside them as one op, in pieces "
      "that hide each other, wherever estimates say that it gains; without the "
      "flag, where the machine's table has the pieces, and wherever steps are "
      "measured (--gate)");
  app.add_flag("--no-overlap", flags->no_overlap, "tries none of that")
      ->excludes(overlap);
  app.add_flag("--join,!--no-join", flags->join,
               "joins small collectives, with --bucket");
  app.add_option("--phases", flags->phases,
                 "forward and backward of a training step: interleaved, "
                 "backward of a tile beside forward of another; apart, "
                 "backward begins when forward has ended; auto, whichever "
                 "simulates faster")
      ->check(CLI::IsMember({"auto", kPhasesInterleaved, kPhasesApart}))
      ->capture_default_str();
  app.add_flag("--fuse,!--no-fuse", flags->fuse,
               "joins elementwise ops, and reductions over devices with the "
               "rows computed from them, into one kernel where that pays");
  app.add_option("--epilogues", flags->epilogues,
                 "matmuls that get bias, residual and activation as epilogue: "
                 "measured, where a measurement shows a gain; estimated, also "
                 "by formulas; none")
      ->check(CLI::IsMember({"measured", "estimated", "none"}))
      ->capture_default_str();
  app.add_option("--reduce-scatter", flags->reduce_scatter,
                 "how a reduce_scatter reduces: fused, in the collective; "
                 "decomposed, in an op after an all_to_all, which copy engines "
                 "carry without SMs; auto, whichever simulates faster")
      ->check(CLI::IsMember(ReduceScatterStrategies()))
      ->capture_default_str();
  app.add_option("--over-hosts", flags->over_hosts,
                 "collectives over several devices of several hosts: flat, as "
                 "the library carries them; hierarchical, inside each host and "
                 "across, as ops that hide each other; auto, whichever "
                 "simulates faster")
      ->check(CLI::IsMember(OverHostsForms()))
      ->capture_default_str();
  app.add_option("--key-walk", flags->key_walk,
                 "keys of a sequence that is sharded: never, all are gathered "
                 "before attention; a number, they come in so many parts, each "
                 "computed with while the next one comes; auto, whichever "
                 "simulates faster")
      ->capture_default_str();
  app.add_option("--head-parts", flags->head_parts,
                 "parts of the heads in which attention between exchanges or "
                 "gathers is computed, each while another one comes; 1: whole; "
                 "0: over several hosts whichever simulates faster")
      ->capture_default_str();
  app.add_option("--search-steps", flags->search_steps,
                 "about how many orders are simulated: rounds of 200, 800, "
                 "4000, ... as far as they fit, at least the first; a larger "
                 "number is never slower, unless a memory limit binds")
      ->check(CLI::Range(1, kMostSearchSteps))
      ->capture_default_str();
  CLI::Option* memory =
      app.add_option(
             "--memory-gib", flags->capacity_gib,
             "GiB of a device that the step may use in all, libraries and "
             "kernels included, instead of the machine's memory; 0: no limit")
          ->check(CheckGibText);
  // A separate option, so that errors name the flag that was given.
  app.add_option("--capacity", flags->capacity_gib, "as --memory-gib")
      ->check(CheckGibText)
      ->excludes(memory);
  app.add_option("--expert-capacity", flags->expert_capacity,
                 "slots of an expert in percent of an even share; tokens "
                 "without a slot are dropped; 0: a slot for each")
      ->capture_default_str();
  app.add_option("--padding", flags->mask_padding,
                 "rows of attention_mask: any (they stay masks), or right "
                 "(ones, then zeros: attention takes their lengths, which is "
                 "faster; a step ends with an error at any other row)")
      ->check(CLI::IsMember({"any", "right"}))
      ->capture_default_str();
  app.add_option("--documents", flags->documents,
                 "N: rows of tokens are about so many documents that follow "
                 "each other, and each token sees its own alone: input "
                 "document_starts, i64 [rows, length], has the places where "
                 "they begin")
      ->check(CLI::PositiveNumber);
  app.add_option("--passes", flags->passes,
                 "runs these passes instead of the default pipeline");
  app.add_option("--print-after", flags->print_after,
                 "REGEX: prints the program after passes whose names match");
  app.add_flag("--print-changed", flags->print_changed,
               "prints the program after each pass that changes it");
  app.add_option("--dump-dir", flags->dump_dir,
                 "writes the program here after each pass that changes it, "
                 "numbered: 0007-fuse.asyra");
  app.add_flag("--simulate-each", flags->simulate_each,
               "prints the simulated step after each pass from partition on");
  GroupFlags(app);
}

void AddEstimateFlag(CLI::App& app, CompileFlags* flags) {
  app.add_flag("--estimate", flags->estimate,
               "shards the step and says what memory it needs, the lower bound "
               "of its time, and the time without a schedule; searches none, "
               "which takes seconds where a search takes minutes")
      ->group("Schedule");
}

absl::StatusOr<Mesh> MeshOf(const CompileFlags& flags) {
  if (flags.mesh.has_value()) return ReadMesh(*flags.mesh);
  std::vector<Mesh::Axis> axes;
  // Outermost first: the neighbours along the last share a host first. With
  // several hosts LowestCostOrder decides.
  const std::pair<const char*, int64_t> sizes[] = {
      {"dp", flags.dp}, {"ep", flags.ep}, {"sp", flags.sp}, {"tp", flags.tp}};
  for (auto [name, size] : sizes) {
    if (size < 1) {
      return Invalid("--{} is {}, it must be at least 1", name, size);
    }
    bool covered = std::string_view(name) == "ep" && !ExpertAxes(flags).empty();
    if (size > 1 && !covered) axes.push_back({name, size});
  }
  return Mesh::Create(std::move(axes));
}

bool IsProgramFile(const CompileFlags& flags) {
  return flags.model.ends_with(".asyra");
}

absl::Status CheckRanks(const CompileFlags& flags, const Mesh& mesh) {
  int64_t devices = mesh.num_devices();
  if (flags.ranks.value_or(devices) == devices) return absl::OkStatus();
  return Invalid("--ranks is {}, the mesh {} has {} {}{}", *flags.ranks,
                 ToString(mesh), devices, devices == 1 ? "device" : "devices",
                 IsProgramFile(flags) ? "" : MeshHint(*flags.ranks));
}

std::vector<std::string> MachineEdits(const CompileFlags& flags) {
  std::vector<std::string> edits = flags.set;
  if (flags.nodes != 0) {
    edits.push_back(fmt::format("nodes={}", flags.nodes));
  }
  return edits;
}

CostOptions CostsOf(const CompileFlags& flags) {
  return {.graph_launch = flags.graph,
          .ranks_are_processes = flags.ranks_as == kRanksAsProcesses};
}

std::string ExpertAxes(const CompileFlags& flags) {
  auto dp = static_cast<double>(flags.dp);
  auto sp = static_cast<double>(flags.sp);
  auto ep = static_cast<double>(flags.ep);
  double own = dp * sp * ep * static_cast<double>(flags.tp);
  if (ep <= 1 || static_cast<double>(flags.ranks.value_or(0)) == own) {
    return "";
  }
  if (dp > 1 && sp > 1 && dp * sp == ep) return "dp,sp";
  if (dp == ep) return "dp";
  return sp == ep ? "sp" : "";
}

namespace {

absl::Status CheckKeyWalk(const std::string& text) {
  int64_t parts = 0;
  if (text == "auto" || text == "never") return absl::OkStatus();
  if (absl::SimpleAtoi(text, &parts) && parts > 1) return absl::OkStatus();
  return Invalid(
      "--key-walk is '{}', it should be auto, never or a number of parts from "
      "2 "
      "on",
      text);
}

}  // namespace

absl::StatusOr<CompileOptions> OptionsOf(const CompileFlags& flags) {
  if (flags.tiles < 0) {
    return Invalid("--tiles is {}, it must not be negative", flags.tiles);
  }
  if (flags.expert_capacity < 0) {
    return Invalid("--expert-capacity is {}, it must not be negative",
                   flags.expert_capacity);
  }
  if (!absl::c_linear_search(ReduceScatterStrategies(), flags.reduce_scatter)) {
    return Invalid("--reduce-scatter is '{}', it should be one of {}",
                   flags.reduce_scatter,
                   absl::StrJoin(ReduceScatterStrategies(), ", "));
  }
  if (!absl::c_linear_search(OverHostsForms(), flags.over_hosts)) {
    return Invalid("--over-hosts is '{}', it should be one of {}",
                   flags.over_hosts, absl::StrJoin(OverHostsForms(), ", "));
  }
  ASYRA_RETURN_IF_ERROR(CheckKeyWalk(flags.key_walk));
  if (flags.head_parts < 0) {
    return Invalid("--head-parts is {}, it must not be negative",
                   flags.head_parts);
  }
  CompileOptions options;
  options.expert_capacity = flags.expert_capacity;
  options.pads_right = flags.mask_padding == "right";
  options.documents = flags.documents;
  options.dtype = flags.dtype;
  options.train = flags.train;
  options.sharding = {.pins = flags.shard,
                      .experts = ExpertAxes(flags),
                      .tp_strategy = flags.tp_strategy,
                      .ep_strategy = flags.ep_strategy,
                      .propagate = flags.propagate,
                      .padding = flags.padding,
                      .stripes = flags.stripes};
  options.order_axes = !flags.mesh.has_value();
  options.fuse = flags.fuse;
  options.epilogues = flags.epilogues;
  options.reduce_scatter = flags.reduce_scatter;
  options.over_hosts = flags.over_hosts;
  options.key_walk = flags.key_walk;
  options.head_parts = flags.head_parts;
  options.measured_only = flags.measured_only;
  options.schedule.tiles = flags.tiles;
  options.schedule.tile_dim = flags.tile_dim;
  options.schedule.scheduler = flags.scheduler;
  options.schedule.bucket = flags.bucket;
  options.schedule.join = flags.join;
  if (!flags.fuse) options.schedule.closed.push_back("fuse_reductions");
  if (flags.phases == kPhasesApart) {
    options.schedule.taken = {MakePass("separate_phases")};
  } else if (flags.phases == kPhasesInterleaved) {
    options.schedule.closed.push_back("separate_phases");
  }
  // A gate measures what is found.
  if (flags.no_overlap) {
    options.schedule.closed.push_back("form_overlaps");
  } else if (flags.overlap || flags.runners_up > 0) {
    options.schedule.opened = {"form_overlaps"};
  }
  options.schedule.search_steps = flags.search_steps;
  options.schedule.runners_up = static_cast<size_t>(flags.runners_up);
  if (flags.capacity_gib >= 0) {
    options.schedule.capacity_bytes = GibBytes(flags.capacity_gib);
  }
  options.schedule.allow_misfit = flags.allow_misfit;
  options.costs = CostsOf(flags);
  options.passes = flags.passes;
  options.estimate = flags.estimate;
  options.manager.print_after = flags.print_after;
  options.manager.print_changed = flags.print_changed;
  options.manager.dump_dir = flags.dump_dir;
  options.manager.dumped = flags.dumped;
  options.manager.simulate_each = flags.simulate_each;
  options.progress = flags.progress;
  return options;
}

}  // namespace asyra
