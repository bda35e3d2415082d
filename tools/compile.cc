#include "tools/compile.h"

#include <filesystem>
#include <iterator>
#include <map>

#include "absl/algorithm/container.h"
#include "fmt/format.h"
#include "frontends/huggingface/import.h"
#include "frontends/onnx/import.h"
#include "ir/copy_engine.h"
#include "ir/gpu/copy_engine_reach.h"
#include "ir/program_file.h"
#include "ir/support/path.h"
#include "ir/support/status.h"
#include "models/models.h"
#include "passes/shard/pins.h"
#include "simulator/cost/collective_cost.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine.h"
#include "simulator/report/slow_kernels.h"
#include "tools/progress.h"

namespace asyra {
namespace {

// Only an .onnx file leaves open which of its inputs are weights.
absl::Status CheckNoRoles(const CompileFlags& flags) {
  for (auto [flag, pattern] : {std::pair("--data", &flags.data),
                               std::pair("--weights", &flags.weights)}) {
    if (pattern->empty()) continue;
    return Invalid("{}: {} is no .onnx file, it says which inputs are weights",
                   flag, flags.model);
  }
  return absl::OkStatus();
}

absl::StatusOr<Program> ReadModel(const CompileFlags& flags,
                                  LoadedModel* loaded) {
  ASYRA_ASSIGN_OR_RETURN(auto dims, ParseDims(flags.dims));
  std::filesystem::path path = flags.model;
  if (path.extension() != ".onnx") {
    ASYRA_RETURN_IF_ERROR(CheckNoRoles(flags));
  }
  if (path.extension() == ".asyra") {
    if (!dims.empty()) {
      return Invalid("--dim: an .asyra program has no symbolic dimensions");
    }
    return ReadProgramFile(flags.model);
  }
  if (path.extension() == ".onnx") {
    ImportOptions import{
        .dims = dims,
        .data = flags.data,
        .weights = flags.weights,
        .numbers = flags.train.has_value() ? flags.train->train : ""};
    for (const auto& [name, tensor] : flags.recorded) {
      import.shapes.emplace_back(name, tensor.shape());
    }
    import.inputs = flags.given_inputs;
    import.says_flags = true;
    if (!flags.given_shapes.empty()) {
      import.shapes = flags.given_shapes;
      import.named_shapes = true;
    }
    return ImportOnnx(flags.model, import, &loaded->dim_names,
                      &loaded->op_sources);
  }
  if (flags.expert_capacity > 0) {
    dims["capacity_percent"] = flags.expert_capacity;
  }
  if (std::string config = HuggingFaceConfig(path); !config.empty()) {
    return ImportHuggingFace(config, dims);
  }
  if (IsThere(path)) {
    return Invalid(
        "{}: neither an .onnx nor an .asyra file, nor a folder with a "
        "config.json",
        flags.model);
  }
  return BuiltinModel(flags.model, dims);
}

}  // namespace

std::vector<std::string> CopyEngineObstacles(const CompileResult& result) {
  std::map<std::string, int> counts;
  if (result.costs == nullptr) return {};
  const Mesh& mesh = result.program.mesh;
  for (const Op& op : result.program.ops) {
    if (!op.is_collective() || !AsksForCopyEngine(op.attrs)) continue;
    GroupReach reach =
        ReachOf(result.costs->machine(),
                result.costs->SpanOf(op.attrs.Get<AxisList>("axes")));
    std::string obstacle =
        CopyEngineObstacle(OpUse(result.program, op).call(), mesh, reach);
    if (!obstacle.empty()) ++counts[obstacle];
  }
  std::vector<std::string> lines;
  for (const auto& [obstacle, count] : counts) {
    lines.push_back(fmt::format(
        "{} {} for copy engines and {} estimated as the library's: {}", count,
        count == 1 ? "collective asks" : "collectives ask",
        count == 1 ? "is" : "are", obstacle));
  }
  return lines;
}

absl::StatusOr<LoadedModel> LoadModel(const CompileFlags& flags) {
  LoadedModel loaded;
  ASYRA_ASSIGN_OR_RETURN(loaded.program, ReadModel(flags, &loaded));
  loaded.lacking_weights = WeightsWithoutData(loaded.program);
  ASYRA_RETURN_IF_ERROR(AddWeightData(flags.recorded, &loaded.program));
  return loaded;
}

absl::StatusOr<RaisedModel> LoadRaised(const CompileFlags& flags) {
  ASYRA_ASSIGN_OR_RETURN(CompileOptions options, OptionsOf(flags));
  RaisedModel model;
  ASYRA_ASSIGN_OR_RETURN(LoadedModel loaded, LoadModel(flags));
  model.imported = std::move(loaded.program);
  model.lacking_weights = std::move(loaded.lacking_weights);
  ASYRA_ASSIGN_OR_RETURN(
      model.raised,
      Raise(model.imported, options, loaded.dim_names, loaded.op_sources));
  return model;
}

absl::StatusOr<Target> TargetOf(const CompileFlags& flags,
                                const RaisedModel& model) {
  if (flags.estimate && flags.train.has_value() &&
      flags.train->accumulate > 1) {
    return Invalid("--estimate is of a step of one batch, --accumulate is {}",
                   flags.train->accumulate);
  }
  Target target;
  ASYRA_ASSIGN_OR_RETURN(target.options, OptionsOf(flags));
  ASYRA_ASSIGN_OR_RETURN(target.machine,
                         LoadMachine(flags.machine, MachineEdits(flags)));
  ASYRA_ASSIGN_OR_RETURN(target.mesh, MeshOf(flags));
  const Program& raised = model.raised.program;
  if (raised.stage != Stage::kGlobal && target.mesh.num_axes() > 0) {
    return Invalid("{}: the program is partitioned already, over {}",
                   flags.model, ToString(raised.mesh));
  }
  const Mesh& own = raised.stage == Stage::kGlobal ? target.mesh : raised.mesh;
  ASYRA_RETURN_IF_ERROR(CheckRanks(flags, own));
  ASYRA_RETURN_IF_ERROR(Annotate(CheckPins(flags.shard, own), "--shard"));
  // It may have other hosts, and then not the form that was asked for.
  if (!flags.set.empty() && flags.over_hosts != "hierarchical") {
    CompileFlags unchanged = flags;
    unchanged.set.clear();
    ASYRA_ASSIGN_OR_RETURN(Machine machine,
                           LoadMachine(flags.machine, MachineEdits(unchanged)));
    target.options.neighbour = {.machine = std::move(machine),
                                .name = flags.machine + " without --set"};
  }
  return target;
}

CompiledModel Told(const CompileFlags& flags, const RaisedModel& model,
                   CompileResult result) {
  CompiledModel told;
  static_cast<CompileResult&>(told) = std::move(result);
  told.imported = model.imported;
  told.lacking_weights = model.lacking_weights;
  told.dim_names = model.raised.dim_names;
  told.raised = model.raised.program;
  if (std::string slower = SlowerText(flags, told); !slower.empty()) {
    told.notes.push_back(std::move(slower));
  }
  absl::c_move(CopyEngineObstacles(told), std::back_inserter(told.notes));
  if (told.simulated.has_value() && told.costs != nullptr) {
    absl::c_move(SlowKernelNotes(told.program, *told.simulated, *told.costs),
                 std::back_inserter(told.notes));
  }
  absl::c_copy(told.notes, std::back_inserter(told.remarks));
  if (!told.estimate.empty()) {
    told.notes.insert(told.notes.begin(), told.estimate);
    told.remarks.insert(told.remarks.begin(), told.estimate);
  }
  return told;
}

namespace {

absl::StatusOr<CompiledModel> CompileTarget(const CompileFlags& flags,
                                            const RaisedModel& model,
                                            const Target& target) {
  ASYRA_ASSIGN_OR_RETURN(
      CompileResult result,
      Compile(model.raised, target.mesh, target.machine, target.options));
  if (flags.progress) Progress::Erase();  // what comes next may print
  return Told(flags, model, std::move(result));
}

}  // namespace

absl::StatusOr<CompiledModel> CompileAlone(const CompileFlags& flags,
                                           const RaisedModel& model) {
  ASYRA_ASSIGN_OR_RETURN(Target target, TargetOf(flags, model));
  target.options.neighbour.reset();
  return CompileTarget(flags, model, target);
}

absl::StatusOr<CompiledModel> Compile(const CompileFlags& flags,
                                      const RaisedModel& model) {
  ASYRA_ASSIGN_OR_RETURN(Target target, TargetOf(flags, model));
  return CompileTarget(flags, model, target);
}

absl::Status CheckTarget(const CompileFlags& flags) {
  ASYRA_RETURN_IF_ERROR(
      LoadMachine(flags.machine, MachineEdits(flags)).status());
  return MeshOf(flags).status();
}

absl::StatusOr<CompiledModel> Compile(const CompileFlags& flags) {
  ASYRA_RETURN_IF_ERROR(CheckTarget(flags));
  ASYRA_ASSIGN_OR_RETURN(RaisedModel model, LoadRaised(flags));
  return Compile(flags, model);
}

std::string SlowerText(const CompileFlags& flags, const CompileResult& result) {
  if (!result.schedule.has_value()) return "";
  double before_us = result.schedule->baseline.makespan_us;
  double after_us = result.schedule->optimized.makespan_us;
  if (after_us <= before_us) return "";
  std::vector<std::string> asked;
  if (flags.tiles > 0) {
    asked.push_back(fmt::format("--tiles {}", flags.tiles));
  }
  if (flags.scheduler != "auto") {
    asked.push_back("--scheduler " + flags.scheduler);
  }
  if (flags.capacity_gib >= 0) {
    asked.push_back(fmt::format("--memory-gib {}", flags.capacity_gib));
  }
  std::string text = fmt::format("slower than unscheduled by {:.1f} %",
                                 100 * (after_us / before_us - 1));
  if (asked.empty()) return text;
  return fmt::format("{}: {} {} asked for", text, fmt::join(asked, " and "),
                     asked.size() == 1 ? "was" : "were");
}

}  // namespace asyra
