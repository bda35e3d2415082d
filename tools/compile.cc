#include "tools/compile.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "frontends/onnx/import.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/verifier.h"
#include "ir/weight_store.h"
#include "models/models.h"
#include "passes/pipeline.h"
#include "passes/reorder.h"
#include "tools/mesh_order.h"
#include "tools/schedule_styles.h"

namespace asyra {
namespace {

// What --sums takes.
std::vector<std::string> Sums() { return {"auto", "collective", "apart"}; }

// "NAME=SIZE" as it is read: without a NAME= the name is empty, and what is no
// integer of at least 1 is the size 0.
struct NamedSize {
  std::string name;
  int64_t size = 0;
};

NamedSize ReadNamedSize(std::string_view text) {
  size_t equal = text.find('=');
  if (equal == std::string_view::npos) return {};
  NamedSize read{std::string(text.substr(0, equal))};
  std::string_view digits = text.substr(equal + 1);
  int64_t size = 0;
  const char* end = digits.data() + digits.size();
  auto [at, error] = std::from_chars(digits.data(), end, size);
  if (error == std::errc() && at == end && size >= 1) read.size = size;
  return read;
}

absl::StatusOr<std::map<std::string, int64_t>> ParseDims(
    const std::vector<std::string>& dims) {
  std::map<std::string, int64_t> sizes;
  for (const std::string& text : dims) {
    NamedSize dim = ReadNamedSize(text);
    if (dim.name.empty()) {
      return Invalid("--dim {}: expected NAME=SIZE", text);
    }
    if (dim.size == 0) {
      return Invalid("--dim {}: the size must be an integer of at least 1",
                     text);
    }
    if (!sizes.emplace(dim.name, dim.size).second) {
      return Invalid("--dim {}: the dimension is given twice", text);
    }
  }
  return sizes;
}

absl::StatusOr<Program> LoadText(const std::string& path) {
  ASYRA_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  absl::StatusOr<Program> program = ParseProgram(text);
  if (!program.ok()) return Annotate(program.status(), path);
  ASYRA_RETURN_IF_ERROR(Annotate(Verify(*program), path));
  std::string weights = WeightPathFor(path);
  if (std::filesystem::exists(weights)) {
    ASYRA_ASSIGN_OR_RETURN(program->weights, ReadWeights(weights));
  }
  return program;
}

// "dp=2,tp=4".
absl::StatusOr<Mesh> ReadMesh(const std::string& text) {
  std::vector<Mesh::Axis> axes;
  std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    NamedSize axis = ReadNamedSize(part);
    if (axis.name.empty() || axis.size == 0) {
      return Invalid(
          "--mesh {}: expected NAME=SIZE with a size of at least 1, "
          "got '{}'",
          text, part);
    }
    axes.push_back({axis.name, axis.size});
  }
  absl::StatusOr<Mesh> mesh = Mesh::Create(std::move(axes));
  if (!mesh.ok()) return Annotate(mesh.status(), "--mesh");
  return mesh;
}

absl::Status RunGiven(const CompileOptions& options,
                      const PassManagerOptions& manager, PassContext& context,
                      CompileResult* result) {
  ASYRA_RETURN_IF_ERROR(RunPasses(result->program, options.passes, context,
                                  manager, &result->timings));
  if (result->program.stage >= Stage::kLocal) {
    result->partitioned = result->program;
    result->simulated = Simulate(result->program, *context.costs);
  }
  return absl::OkStatus();
}

std::string RaisePipeline(const CompileOptions& options) {
  if (options.expert_capacity == 0) return std::string(kRaisePipeline);
  return absl::StrReplaceAll(
      std::string(kRaisePipeline),
      {{"raise_moe", fmt::format("raise_moe{{capacity_percent={}}}",
                                 options.expert_capacity)}});
}

absl::Status RunDefault(const CompileOptions& options,
                        const PassManagerOptions& manager, PassContext& context,
                        CompileResult* result) {
  Program& program = result->program;
  if (program.stage >= Stage::kScheduled) {
    result->partitioned = program;
    result->simulated = Simulate(program, *context.costs);
    return absl::OkStatus();
  }
  ASYRA_RETURN_IF_ERROR(ScheduleBestStyle(options, manager, context, result));
  ASYRA_RETURN_IF_ERROR(
      RunPasses(program, kLowerPipeline, context, manager, &result->timings));
  result->simulated = Simulate(program, *context.costs);
  result->schedule->optimized = *result->simulated;
  return absl::OkStatus();
}

}  // namespace

std::string CheckGib(const std::string& text) {
  double gib = -1;
  bool good = absl::SimpleAtod(text, &gib) && gib >= 0 && std::isfinite(gib);
  return good ? "" : text + " is no number of at least 0";
}

void AddModelFlag(CLI::App& app, CompileOptions* options) {
  app.add_option(
         "MODEL", options->model,
         "an .onnx or .asyra file, or a built-in model: " + BuiltinModelNames())
      ->required();
}

void AddCompileFlags(CLI::App& app, CompileOptions* options) {
  app.add_option("--dim", options->dims,
                 "NAME=SIZE: binds a symbolic dimension; may be repeated")
      ->take_all();
  app.add_option("--dp", options->dp, "data parallel devices (batch)");
  app.add_option("--tp", options->tp, "tensor parallel devices (weights)");
  app.add_option("--sp", options->sp, "sequence parallel devices (tokens)");
  app.add_option(
      "--ep", options->ep,
      "expert parallel devices: over dp, sp or both where it is their "
      "product, else an axis of its own");
  app.add_option("--mesh", options->mesh,
                 "NAME=SIZE,...: axes by name, neighbours along the last share "
                 "a host first; dp, tp, sp and ep shard what their flags do, "
                 "others anything")
      ->excludes("--dp", "--tp", "--sp", "--ep");
  app.add_option("--ranks", options->ranks,
                 "how many devices there are; another mesh is refused");
  app.add_option("--shard", options->shard,
                 "'REGEX=DIM@AXIS,...;REGEX=whole': fixes how values whose "
                 "names match are sharded");
  app.add_flag("--propagate", options->propagate,
               "shards only what follows from --shard, without prices")
      ->needs("--shard");
  app.add_option("--tp-style", options->tp_style,
                 "norms between weights under tp: sequence (sharded along the "
                 "tokens), replicated, or what costs less")
      ->check(CLI::IsMember({"auto", "sequence", "replicated"}))
      ->capture_default_str();
  app.add_option("--ep-style", options->ep_style,
                 "how tokens reach their experts: all_to_all, all_gather (and "
                 "reduce_scatter), or what costs less")
      ->check(CLI::IsMember({"auto", "all_to_all", "all_gather"}))
      ->capture_default_str();
  app.add_option("--machine", options->machine,
                 "a known machine or a .machine file: " +
                     absl::StrJoin(ListMachines(), ", "))
      ->capture_default_str();
  app.add_option("--nodes", options->nodes,
                 "hosts there are; 0: as many as the mesh takes");
  app.add_flag("--graph", options->graph,
               "ops are issued as a captured graph, not one by one");
  app.add_option("--set", options->set,
                 "KEY=VALUE or KEY*=FACTOR: changes a number of the machine, "
                 "gpu.hbm_gbps=4000; may be repeated")
      ->take_all();
  app.add_option("--tiles", options->tiles,
                 "tile streams; 0: what simulates best")
      ->capture_default_str();
  app.add_option("--tile-dim", options->tile_dim,
                 "what tiles cut: batch, sequence, or auto, the batch where "
                 "it cuts")
      ->check(CLI::IsMember({"auto", "batch", "sequence"}))
      ->capture_default_str();
  std::vector<std::string> schedulers = Schedulers();
  schedulers.insert(schedulers.begin(), "auto");
  app.add_option("--scheduler", options->scheduler,
                 "order of issue: auto searches, the others are baselines")
      ->check(CLI::IsMember(schedulers))
      ->capture_default_str();
  app.add_flag("--bucket,!--no-bucket", options->bucket,
               "merges tiles back, and joins collectives, where that pays");
  app.add_flag("--join,!--no-join", options->join,
               "joins small collectives, as far as --bucket goes");
  app.add_flag("--fuse,!--no-fuse", options->fuse,
               "joins ops element by element into one kernel where that pays");
  app.add_option("--epilogues", options->epilogues,
                 "products that bias, residual and activation behind them are "
                 "joined with: measured, where that was measured to pay, "
                 "priced, by formulas as well, or none")
      ->check(CLI::IsMember({"measured", "priced", "none"}))
      ->capture_default_str();
  app.add_option("--sums", options->sums,
                 "what adds up the values of a reduce_scatter: collective, the "
                 "collective itself; apart, an op behind an all_to_all, which "
                 "copy engines carry without processors; auto, what simulates "
                 "faster")
      ->check(CLI::IsMember(Sums()))
      ->capture_default_str();
  app.add_option("--search-steps", options->search_steps,
                 "orders that are simulated, about; the result depends on it, "
                 "not on the time there is")
      ->check(CLI::Range(1, 10000000))
      ->capture_default_str();
  app.add_option("--memory-gib", options->memory_gib,
                 "peak memory allowed on a device; 0: what it has")
      ->check(CheckGib)
      ->capture_default_str();
  app.add_option("--expert-capacity", options->expert_capacity,
                 "slots of an expert in percent of an even share of the "
                 "choices, what finds none is dropped; 0: a slot for each")
      ->capture_default_str();
  app.add_option("--passes", options->passes,
                 "runs these passes instead of the default pipeline");
  app.add_option("--print-after", options->print_after,
                 "prints the program after passes that match");
}

absl::StatusOr<Mesh> MeshOf(const CompileOptions& options) {
  if (options.mesh.has_value()) return ReadMesh(*options.mesh);
  std::vector<Mesh::Axis> axes;
  // Outermost first: the neighbours along the last share a host first. Where
  // there are several hosts CheapestOrder has the last word.
  const std::pair<const char*, int64_t> sizes[] = {{"dp", options.dp},
                                                   {"ep", options.ep},
                                                   {"sp", options.sp},
                                                   {"tp", options.tp}};
  for (auto [name, size] : sizes) {
    if (size < 1) {
      return Invalid("--{} is {}, it must be at least 1", name, size);
    }
    bool covered =
        std::string_view(name) == "ep" && !ExpertAxes(options).empty();
    if (size > 1 && !covered) axes.push_back({name, size});
  }
  return Mesh::Create(std::move(axes));
}

absl::Status CheckRanks(const CompileOptions& options, const Mesh& mesh) {
  int64_t devices = mesh.num_devices();
  if (options.ranks.value_or(devices) == devices) return absl::OkStatus();
  return Invalid("--ranks is {}, the mesh {} has {} devices", *options.ranks,
                 ToString(mesh), devices);
}

std::vector<std::string> MachineEdits(const CompileOptions& options) {
  std::vector<std::string> edits = options.set;
  if (options.nodes != 0) {
    edits.push_back(fmt::format("nodes={}", options.nodes));
  }
  return edits;
}

absl::StatusOr<Program> LoadModel(const CompileOptions& options) {
  ASYRA_ASSIGN_OR_RETURN(auto dims, ParseDims(options.dims));
  std::filesystem::path path = options.model;
  if (path.extension() == ".asyra") {
    if (!dims.empty()) {
      return Invalid("--dim: an .asyra program has no symbolic dimensions");
    }
    return LoadText(options.model);
  }
  if (path.extension() == ".onnx") {
    return ImportOnnx(options.model, {.dims = dims});
  }
  if (std::filesystem::exists(path)) {
    return Invalid("{}: neither an .onnx nor an .asyra file", options.model);
  }
  if (options.expert_capacity > 0) {
    dims["capacity_percent"] = options.expert_capacity;
  }
  return BuiltinModel(options.model, dims);
}

absl::StatusOr<RaisedModel> LoadRaised(const CompileOptions& options) {
  if (options.expert_capacity < 0) {
    return Invalid("--expert-capacity is {}, it must not be negative",
                   options.expert_capacity);
  }
  RaisedModel model;
  ASYRA_ASSIGN_OR_RETURN(model.imported, LoadModel(options));
  model.raised = model.imported;
  if (model.raised.stage != Stage::kGlobal || !options.passes.empty()) {
    return model;
  }
  PassContext context;
  ASYRA_RETURN_IF_ERROR(RunPasses(model.raised, RaisePipeline(options), context,
                                  {.print_after = options.print_after},
                                  &model.timings));
  model.remarks = std::move(context.remarks);
  return model;
}

absl::StatusOr<CompileResult> Compile(const CompileOptions& options,
                                      const RaisedModel& model) {
  if (options.tiles < 0) {
    return Invalid("--tiles is {}, it must not be negative", options.tiles);
  }
  if (!absl::c_linear_search(Sums(), options.sums)) {
    return Invalid("--sums is '{}', it should be one of {}", options.sums,
                   absl::StrJoin(Sums(), ", "));
  }
  ASYRA_ASSIGN_OR_RETURN(Machine machine,
                         LoadMachine(options.machine, MachineEdits(options)));
  ASYRA_ASSIGN_OR_RETURN(Mesh mesh, MeshOf(options));
  PassContext context;
  context.remarks = model.remarks;
  context.progress = options.progress;
  if (!options.mesh.has_value() && options.passes.empty() &&
      model.raised.stage == Stage::kGlobal) {
    ASYRA_ASSIGN_OR_RETURN(
        mesh, CheapestOrder(options, model.raised, mesh, machine, context));
  }
  CompileResult result;
  result.imported = model.imported;
  result.raised = model.raised;
  result.program = model.raised;
  result.timings = model.timings;
  if (result.program.stage == Stage::kGlobal) {
    result.program.mesh = mesh;
  } else if (mesh.num_axes() > 0) {
    return Invalid("{}: the program is partitioned already, over {}",
                   options.model, ToString(result.program.mesh));
  }
  ASYRA_RETURN_IF_ERROR(CheckRanks(options, result.program.mesh));
  ASYRA_RETURN_IF_ERROR(CheckFits(result.program.mesh, machine));
  result.costs = std::make_unique<CostModel>(
      machine, result.program.mesh, CostOptions{.graph_launch = options.graph});
  context.costs = result.costs.get();
  PassManagerOptions manager;
  manager.print_after = options.print_after;
  ASYRA_RETURN_IF_ERROR(options.passes.empty()
                            ? RunDefault(options, manager, context, &result)
                            : RunGiven(options, manager, context, &result));
  result.remarks = std::move(context.remarks);
  return result;
}

absl::Status CheckTarget(const CompileOptions& options) {
  ASYRA_RETURN_IF_ERROR(
      LoadMachine(options.machine, MachineEdits(options)).status());
  return MeshOf(options).status();
}

absl::StatusOr<CompileResult> Compile(const CompileOptions& options) {
  ASYRA_RETURN_IF_ERROR(CheckTarget(options));
  ASYRA_ASSIGN_OR_RETURN(RaisedModel model, LoadRaised(options));
  return Compile(options, model);
}

}  // namespace asyra
