// asyra-run: runs a program on this machine, and compares with recorded
// outputs.
#include <atomic>
#include <csignal>
#include <optional>

#include "CLI/CLI.hpp"
#include "executor/launched_world.h"
#include "ir/support/short_list.h"
#include "ir/support/status.h"
#include "passes/analysis/step_shape.h"
#include "tools/compile.h"
#include "tools/connect_ranks.h"
#include "tools/given_flags.h"
#include "tools/progress.h"
#include "tools/rank_flags.h"
#include "tools/report/compare_single.h"
#include "tools/run/against.h"
#include "tools/run/cache_warning.h"
#include "tools/run/check_outputs.h"
#include "tools/run/given_inputs.h"
#include "tools/run/input_sources.h"
#include "tools/run/run_gate.h"
#include "tools/run/run_inputs.h"
#include "tools/run/run_on_device.h"
#include "tools/run/run_report.h"
#include "tools/run/run_settings.h"
#include "tools/run/tuning_session.h"
#include "tools/run/write_outputs.h"
#include "tools/run_tool.h"
#include "tools/standard_output.h"
#include "tools/train/first_params.h"

namespace asyra {
namespace {

struct Loaded {
  Program program;
  Program single;                            // the same before it was sharded
  std::vector<std::string> lacking_weights;  // LoadedModel
  std::optional<Program> partitioned = std::nullopt;  // before it was scheduled
  std::vector<RunnerUp> runners_up = {};              // other schedules
};

absl::StatusOr<Loaded> Load(const CompileFlags& options) {
  ASYRA_ASSIGN_OR_RETURN(bool as_it_is, RunsAsItIs(options));
  if (as_it_is) {
    ASYRA_ASSIGN_OR_RETURN(LoadedModel model, LoadModel(options));
    ASYRA_RETURN_IF_ERROR(CheckRanks(options, model.program.mesh));
    return Loaded{model.program, model.program,
                  std::move(model.lacking_weights)};
  }
  ASYRA_ASSIGN_OR_RETURN(CompiledModel result, Compile(options));
  Loaded loaded{std::move(result.program), std::move(result.raised),
                std::move(result.lacking_weights),
                std::move(result.partitioned)};
  if (result.schedule.has_value()) {
    loaded.runners_up = std::move(result.schedule->runners_up);
  }
  return loaded;
}

// Counts the weights that have no data and get random values. An error unless
// it was requested: a program file should have its weights beside it, and a
// check would be meaningless.
absl::StatusOr<size_t> CountRandomWeights(const RunSettings& flags,
                                          const Loaded& loaded,
                                          const InputSources& sources) {
  std::vector<std::string> random;
  for (const std::string& name : loaded.lacking_weights) {
    if (!sources.Has(name)) random.push_back(name);
  }
  if (random.empty()) return 0;
  if (!flags.input.check.empty()) {
    return Invalid(
        "--check: there is no data for the weights {} ({}), and random values "
        "are not checked",
        ShortList(random), random.size());
  }
  if (IsProgramFile(flags.compile) && !flags.random_weights) {
    return NoWeightData(random, flags.compile.model);
  }
  return random.size();
}

// The part of the run whose memory this host has.
HostUse HostUseOf(const RunSettings& flags, const InputSources& sources,
                  const FirstParams& first, const Communicator* world) {
  HostUse use{.runs_on = flags.device,
              .data_is_given =
                  !sources.recorded.inputs.empty() || !sources.given.empty(),
              .params_are_whole = first.init.has_value() && !first.by_rank};
  if (world == nullptr) return use;
  use.processes =
      flags.run.ranks_on_host > 0 ? flags.run.ranks_on_host : world->size();
  use.ranks = use.processes;
  return use;
}

// Params that ranks make for themselves are not compared with one device, and
// every program of the run holds them as init does.
absl::StatusOr<FirstParams> FirstParamsOf(const RunSettings& flags,
                                          const Loaded& loaded) {
  ASYRA_ASSIGN_OR_RETURN(FirstParams first,
                         ReadFirstParams(flags.compile.model, loaded.program,
                                         loaded.lacking_weights));
  first.by_rank = first.by_rank && flags.device != "interpreter" &&
                  !flags.compare_single && flags.against.empty() &&
                  loaded.runners_up.empty();
  return first;
}

// One tensor for each input of the program.
absl::StatusOr<std::vector<Tensor>> InputsOf(
    const RunSettings& flags, const InputSources& sources,
    const FirstParams& first, const Program& program,
    const std::vector<std::string>& lacking, Communicator* world) {
  ASYRA_RETURN_IF_ERROR(
      CheckHostMemory(program, HostUseOf(flags, sources, first, world)));
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<Tensor> inputs,
      RunInputs(program, Without(lacking, sources.recorded.inputs),
                flags.seed));
  ASYRA_RETURN_IF_ERROR(SetFirstParams(
      first, program, static_cast<int64_t>(flags.seed),
      [&](const Program& init, absl::Span<const Tensor> given) {
        return RunOnce(flags, world, init, given);
      },
      &inputs));
  if (!sources.given.empty()) {
    ASYRA_RETURN_IF_ERROR(TakeGivenInputs(program, sources.given, lacking,
                                          flags.input.round, &inputs));
  }
  return inputs;
}

// Compares and writes the outputs, as far as that was asked for.
absl::Status UseOutputs(const RunSettings& flags, const Program& program,
                        const TestData& recorded, bool first,
                        RunReport* report) {
  if (!flags.input.check.empty()) {
    ASYRA_ASSIGN_OR_RETURN(
        report->checked,
        CheckOutputs(program, report->outputs, recorded.outputs, flags.rtol,
                     flags.atol));
  }
  if (flags.output.empty() || !first) return absl::OkStatus();
  absl::StatusOr<std::vector<std::string>> written =
      WriteOutputs(program, report->outputs, flags.output, flags.output_form);
  if (!written.ok()) return Annotate(written.status(), "--output");
  report->written = *std::move(written);
  return absl::OkStatus();
}

// Runs the program, on `world` where there is one; its first rank reports.
absl::Status Run(RunSettings flags, Communicator* world) {
  ASYRA_ASSIGN_OR_RETURN(InputSources sources, ReadInputSources(flags.input));
  CompileFlags compile = flags.compile;
  PassOn(sources, &compile);
  if (flags.gate != kGateOff) compile.runners_up = kGateRunnersUp;
  ASYRA_ASSIGN_OR_RETURN(Loaded loaded, Load(compile));
  Program& program = loaded.program;
  const Program* partitioned =
      loaded.partitioned.has_value() ? &*loaded.partitioned : nullptr;
  ASYRA_ASSIGN_OR_RETURN(size_t random_weights,
                         CountRandomWeights(flags, loaded, sources));
  ASYRA_ASSIGN_OR_RETURN(FirstParams params, FirstParamsOf(flags, loaded));
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<Tensor> inputs,
      InputsOf(flags, sources, params, program, loaded.lacking_weights, world));
  if (world != nullptr) {
    ASYRA_RETURN_IF_ERROR(CheckSameInputs(program, inputs, *world));
  }
  if (params.by_rank) flags.run.init = &*params.init;
  flags.run.seed = static_cast<int64_t>(flags.seed);
  RunReport report{.model = flags.compile.model,
                   .device = flags.device,
                   .program = &program,
                   .step = StepShapeOf(loaded.single),
                   .lacking_weights = std::move(loaded.lacking_weights),
                   .random_weights = random_weights};
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<AgainstProgram> against,
      LoadAgainst(flags.against, program, partitioned, inputs));
  ASYRA_RETURN_IF_ERROR(PassGate(flags, partitioned, loaded.runners_up, against,
                                 world, &program, &inputs, &report));
  ASYRA_RETURN_IF_ERROR(Predict(flags, program, against, &report));
  ASYRA_RETURN_IF_ERROR(
      RunOnDevice(flags, program, inputs, against, world, &report));
  if (flags.compare_single) {
    ASYRA_ASSIGN_OR_RETURN(
        report.off_single,
        CompareSingle(std::move(loaded.single), inputs, report.outputs));
  }
  bool first = world == nullptr || world->rank() == 0;
  ASYRA_RETURN_IF_ERROR(
      UseOutputs(flags, program, sources.recorded, first, &report));
  if (first) {
    Print("{}", flags.json ? ToJson(report) : ToText(report));
    WarnOfCache("asyra-run");
  }
  return report.checked.has_value() ? report.checked->verdict
                                    : absl::OkStatus();
}

std::atomic<bool> asked_to_end = false;

LaunchOptions Launch(const RunSettings& flags) {
  return {
      .communicator = flags.communicator,
      .device = flags.device,
      .timeout_s = flags.run.timeout_s,
      .secret_file = flags.secret_file,
      .inject_comm_us = flags.run.inject_comm_us,
      .asked_to_end = &asked_to_end,
      // A launcher that has lost a rank ends the others, which then report it.
      .before_mpi = [] {
        std::signal(SIGTERM, [](int) { asked_to_end.store(true); });
      }};
}

absl::Status Main(RunSettings flags, const std::vector<NamedChoice>& choices) {
  ASYRA_RETURN_IF_ERROR(CheckTimeout(flags));
  absl::Status checked = CheckSettings(flags);
  // Other processes are told of it.
  if (!checked.ok() && !RanksAreProcesses(Launch(flags)).value_or(false)) {
    return checked;
  }
  // The shape of the step that runs.
  if (flags.device == "cuda") flags.compile.graph = flags.graphs;
  ASYRA_ASSIGN_OR_RETURN(LaunchedWorld launched,
                         ConnectRanks(Launch(flags), checked));
  flags.run.local_rank = launched.local_rank;
  flags.run.ranks_on_host = launched.ranks_on_host;
  Communicator* world = launched.world.get();
  // Copies between GPUs go by it.
  if (flags.device == "cuda" && flags.compile.ranks_as == "auto") {
    flags.compile.ranks_as = world == nullptr ? "threads" : kRanksAsProcesses;
  }
  ASYRA_ASSIGN_OR_RETURN(
      flags.session,
      TuningSession::Begin(flags.tuning, DiskCache::OfProcess()));
  return RunAgreed(world, choices, checked, [&]() -> absl::Status {
    ASYRA_RETURN_IF_ERROR(Run(flags, world));
    bool first = world == nullptr || world->rank() == 0;
    return first ? flags.session->Save() : absl::OkStatus();
  });
}

}  // namespace
}  // namespace asyra

int main(int argc, char** argv) {
  asyra::RunSettings flags;
  CLI::App app(
      "Runs a program on given, recorded or random inputs: a compiled .asyra "
      "file "
      "with its .safetensors, or a model, compiled as by asyra-opt.",
      "asyra-run");
  std::vector<CLI::Option*> compiling = asyra::AddRunSettings(app, &flags);
  app.footer(
      "Tuning results and compiled kernels of GPUs, and what --gate has "
      "decided, are kept in $ASYRA_CACHE_DIR, or ~/.cache/asyra; set and "
      "empty: nowhere.");
  flags.compile.progress = asyra::Progress("asyra-run");
  return asyra::RunTool(app, argc, argv, [&] {
    flags.predict = app.count("--machine") > 0;
    flags.given = asyra::GivenFlags(app.get_options());
    flags.of_compiling = asyra::GivenFlags(compiling);
    return asyra::Main(
        flags, asyra::FlagsToAgreeOn(app, asyra::RunFlagsThatMayDiffer()));
  });
}
