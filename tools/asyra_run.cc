// asyra-run: runs a program on this machine, and compares with recorded
// outputs.
#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <optional>

#include "CLI/CLI.hpp"
#include "executor/comm/choices.h"
#include "executor/comm/rank_error.h"
#include "executor/cpu/run_on_cpu.h"
#include "executor/cuda/device/cuda_platform.h"
#include "executor/launched_world.h"
#include "executor/trace.h"
#include "ir/interpreter.h"
#include "ir/support/file.h"
#include "ir/support/short_list.h"
#include "ir/support/status.h"
#include "tools/against.h"
#include "tools/cache_warning.h"
#include "tools/check_outputs.h"
#include "tools/compare_single.h"
#include "tools/compile.h"
#include "tools/first_params.h"
#include "tools/given_flags.h"
#include "tools/given_inputs.h"
#include "tools/idle_flags.h"
#include "tools/input_sources.h"
#include "tools/number_check.h"
#include "tools/output_file.h"
#include "tools/rank_flags.h"
#include "tools/run_gate.h"
#include "tools/run_inputs.h"
#include "tools/run_modes.h"
#include "tools/run_report.h"
#include "tools/run_tool.h"
#include "tools/standard_output.h"
#include "tools/step_shape.h"
#include "tools/tuning_session.h"
#include "tools/write_outputs.h"

namespace asyra {
namespace {

struct Flags {
  CompileFlags compile;
  std::string device = "cpu";
  std::string communicator = "auto", secret_file;
  bool graphs = true;
  RunOptions run;
  std::string profile;
  bool json = false;
  InputFlags input;
  std::string output;  // folder, or empty
  std::string output_form = kNpy;
  std::optional<double> rtol, atol;  // by element type unless given
  bool compare_single = false;
  std::vector<std::string> against;
  std::string gate = kGateOff;
  TuningFlags tuning;
  std::shared_ptr<TuningSession> session;  // of `tuning`
  bool predict = false;                    // a machine was named
  uint64_t seed = 1;
  bool random_weights = false;
  std::vector<std::string> given, of_compiling;  // flags
};

struct Loaded {
  Program program;
  Program single;                            // the same before it was sharded
  std::vector<std::string> lacking_weights;  // LoadedModel
  std::optional<Program> partitioned = std::nullopt;  // before it was scheduled
  std::vector<RunnerUp> runners_up = {};              // other schedules
};

bool IsProgramFile(const CompileFlags& options) {
  return std::filesystem::path(options.model).extension() == ".asyra";
}

// A program file runs as it is, unless it is to be compiled for a mesh.
absl::StatusOr<bool> RunsAsItIs(const CompileFlags& options) {
  ASYRA_ASSIGN_OR_RETURN(Mesh mesh, MeshOf(options));
  return IsProgramFile(options) && mesh.num_axes() == 0 &&
         options.passes.empty();
}

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

// How many weights have no data and get random values. An error unless it was
// requested: a program file should have its weights beside it, and a check
// would be meaningless.
absl::StatusOr<size_t> CountRandomWeights(const Flags& flags,
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

absl::StatusOr<std::unique_ptr<Platform>> PlatformOf(const Flags& flags) {
  if (flags.device == "cpu") {
    return WithTuning(CreateCpuPlatform(), flags.session);
  }
  if (flags.run.inject_comm_us > 0) {
    return Invalid("--inject-comm-us is for cpus, the device is {}",
                   flags.device);
  }
  ASYRA_ASSIGN_OR_RETURN(
      std::unique_ptr<Platform> platform,
      CreateCudaPlatform(
          {.graphs = flags.graphs, .timeout_s = flags.run.timeout_s}));
  return WithTuning(std::move(platform), flags.session);
}

// Runs on the device and fills in the result. `world` is null if the ranks are
// threads.
absl::Status RunOnDevice(const Flags& flags, const Program& program,
                         const std::vector<Tensor>& inputs,
                         absl::Span<const AgainstProgram> against,
                         Communicator* world, RunReport* report) {
  if (flags.device == "interpreter") {
    ASYRA_ASSIGN_OR_RETURN(report->outputs, Interpret(program, inputs));
    return absl::OkStatus();
  }
  RunOptions options = flags.run;
  options.executor.profile = !flags.profile.empty();
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Platform> platform, PlatformOf(flags));
  std::vector<RunCase> cases = {{&program, inputs}};
  for (const AgainstProgram& other : against) {
    cases.push_back({&other.program, other.inputs});
  }
  ASYRA_ASSIGN_OR_RETURN(std::vector<RunResult> results,
                         world == nullptr
                             ? RunOnThreads(cases, *platform, options)
                             : RunAsRank(cases, *platform, *world, options));
  report->run = std::move(results[0]);
  for (size_t i = 0; i < against.size(); ++i) {
    report->against.push_back({against[i].name, std::move(results[i + 1])});
  }
  report->outputs = report->run->outputs;
  bool first = world == nullptr || world->rank() == 0;
  if (flags.profile.empty() || !first) return absl::OkStatus();
  return WriteTextFile(flags.profile, WriteProfileTrace(report->run->program, 0,
                                                        report->run->profile));
}

absl::Status Predict(const Flags& flags, const Program& program,
                     absl::Span<const AgainstProgram> against,
                     RunReport* report) {
  if (against.empty() || !flags.predict) return absl::OkStatus();
  std::vector<const Program*> programs = {&program};
  for (const AgainstProgram& other : against) {
    programs.push_back(&other.program);
  }
  ASYRA_ASSIGN_OR_RETURN(report->predicted_us,
                         PredictUs(programs, flags.compile));
  return absl::OkStatus();
}

absl::Status CheckFlags(const Flags& flags) {
  if (flags.run.repeat < 1) {
    return Invalid("--repeat is {}, it must be at least 1", flags.run.repeat);
  }
  ASYRA_ASSIGN_OR_RETURN(bool as_it_is, RunsAsItIs(flags.compile));
  ASYRA_RETURN_IF_ERROR(
      CheckRunFlags({.device = flags.device,
                     .as_it_is = as_it_is,
                     .checks = !flags.input.check.empty(),
                     .predicts = flags.predict && !flags.against.empty()},
                    flags.given, flags.of_compiling));
  if (!as_it_is) {
    ASYRA_RETURN_IF_ERROR(CheckNoneIdle(flags.of_compiling, {flags.compile}));
  }
  if (flags.device == "interpreter") {
    if (!flags.against.empty()) {
      return Invalid("--against compares times, the interpreter has none");
    }
    if (flags.gate != kGateOff) {
      return Invalid("--gate compares times, the interpreter has none");
    }
    if (!flags.tuning.load.empty() || !flags.tuning.save.empty()) {
      return Invalid(
          "--tuning and --save-tuning are of devices, the "
          "interpreter is none");
    }
  }
  return absl::OkStatus();
}

// Runs one program once.
absl::StatusOr<std::vector<Tensor>> RunOnce(const Flags& flags,
                                            Communicator* world,
                                            const Program& program,
                                            absl::Span<const Tensor> inputs) {
  if (flags.device == "interpreter") return Interpret(program, inputs);
  RunOptions options{.timeout_s = flags.run.timeout_s,
                     .local_rank = flags.run.local_rank,
                     .ranks_on_host = flags.run.ranks_on_host};
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Platform> platform, PlatformOf(flags));
  ASYRA_ASSIGN_OR_RETURN(
      RunResult result,
      world == nullptr
          ? RunOnThreads(program, inputs, *platform, options)
          : RunAsRank(program, inputs, *platform, *world, options));
  return std::move(result.outputs);
}

// With --gate, replaces program and inputs by those that are kept.
absl::Status PassGate(const Flags& flags, const Program* partitioned,
                      absl::Span<const RunnerUp> runners_up,
                      absl::Span<const AgainstProgram> against,
                      Communicator* world, Program* program,
                      std::vector<Tensor>* inputs, RunReport* report) {
  if (flags.gate == kGateOff) return absl::OkStatus();
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<GateCandidate> candidates,
      GateCandidates(*program, partitioned, runners_up, against, *inputs));
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Platform> platform, PlatformOf(flags));
  ASYRA_ASSIGN_OR_RETURN(report->gate, RunGate(flags.gate, candidates,
                                               *platform, world, flags.run));
  GateCandidate& kept = candidates[report->gate->kept];
  *program = std::move(kept.program);
  *inputs = std::move(kept.inputs);
  return absl::OkStatus();
}

// The part of the run whose memory this host has.
HostUse HostUseOf(const Flags& flags, const Communicator* world) {
  HostUse use{.runs_on = flags.device};
  if (world == nullptr) return use;
  use.processes =
      flags.run.ranks_on_host > 0 ? flags.run.ranks_on_host : world->size();
  use.ranks = use.processes;
  return use;
}

// One tensor for each input of the program.
absl::StatusOr<std::vector<Tensor>> InputsOf(
    const Flags& flags, const InputSources& sources, const Program& program,
    const std::vector<std::string>& lacking, Communicator* world) {
  ASYRA_RETURN_IF_ERROR(CheckHostMemory(program, HostUseOf(flags, world)));
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<Tensor> inputs,
      RunInputs(program, Without(lacking, sources.recorded.inputs),
                flags.seed));
  ASYRA_RETURN_IF_ERROR(SetFirstParams(
      flags.compile.model, program, lacking, static_cast<int64_t>(flags.seed),
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
absl::Status UseOutputs(const Flags& flags, const Program& program,
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
absl::Status Run(const Flags& flags, Communicator* world) {
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
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<Tensor> inputs,
      InputsOf(flags, sources, program, loaded.lacking_weights, world));
  if (world != nullptr) {
    ASYRA_RETURN_IF_ERROR(CheckSameInputs(program, inputs, *world));
  }
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

LaunchOptions Launch(const Flags& flags) {
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

absl::Status Main(Flags flags, const std::vector<NamedChoice>& choices) {
  if (!(flags.run.timeout_s > 0) || !std::isfinite(flags.run.timeout_s)) {
    return Invalid("--timeout is {}, it must be finite and above 0",
                   flags.run.timeout_s);
  }
  absl::Status checked = CheckFlags(flags);
  // Other processes are told of it.
  if (!checked.ok() && !RanksAreProcesses(Launch(flags)).value_or(false)) {
    return checked;
  }
  // The shape of the step that runs.
  if (flags.device == "cuda") flags.compile.graph = flags.graphs;
  ASYRA_ASSIGN_OR_RETURN(LaunchedWorld launched,
                         ConnectLaunched(Launch(flags)));
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
  absl::Status status =
      world == nullptr ? absl::OkStatus() : CheckSameChoices(*world, choices);
  if (status.ok()) status = checked;
  if (status.ok()) status = Run(flags, world);
  if (status.ok() && (world == nullptr || world->rank() == 0)) {
    status = flags.session->Save();
  }
  if (status.ok() || world == nullptr) return status;
  world->Abort(status);
  return NameRank(world->rank(), status);
}

void AddRunFlags(CLI::App& app, Flags* flags) {
  RunOptions& run = flags->run;
  app.add_option("--device", flags->device,
                 "cpu and cuda: kernels and streams, a GPU for each rank; "
                 "interpreter: the ops' references, all ranks in lockstep")
      ->check(CLI::IsMember({"cpu", "cuda", "interpreter"}))
      ->capture_default_str();
  app.add_option("--communicator", flags->communicator,
                 "between ranks. local: threads of this process; mpi: "
                 "processes started by mpirun or srun; tcp: processes started "
                 "by torchrun or srun; auto: by how they were started")
      ->check(CLI::IsMember({"auto", "local", "mpi", "tcp"}))
      ->capture_default_str();
  app.add_option(
         "--repeat", run.repeat,
         "steps, all from the same inputs, states and params: those of a "
         "training step are put back in between")
      ->capture_default_str();
  app.add_option("--profile", flags->profile,
                 "writes a trace of rank 0's last step, for Perfetto")
      ->check(OutputFile());
  app.add_option("--secret", flags->secret_file,
                 "FILE with a word that only the ranks of this job know, where "
                 "TCP connects them; by default ASYRA_SECRET_FILE, "
                 "ASYRA_SECRET, or the launcher's name of the job");
  app.add_option(
         "--timeout", run.timeout_s,
         "a rank that keeps others waiting for so many seconds counts as lost")
      ->capture_default_str();
  app.add_option("--inject-comm-us", run.inject_comm_us,
                 "every collective takes at least that long, as on slow links")
      ->check(FiniteFrom(0));
  app.add_flag("--check-finite", run.executor.check_finite,
               "fails at the first op that produces a NaN or an infinity");
  app.add_flag("--check-deterministic", run.check_deterministic,
               "fails when two of the steps differ in a byte");
  app.add_flag("--debug-memory", run.executor.debug_memory,
               "poisons, guards and checks every buffer as it is used");
  app.add_flag("--graphs,!--no-graphs", flags->graphs,
               "a step on GPUs is one captured graph, not op by op")
      ->capture_default_str();
  app.add_flag("--json", flags->json, "prints the result as JSON");
}

}  // namespace
}  // namespace asyra

int main(int argc, char** argv) {
  asyra::Flags flags;
  CLI::App app(
      "Runs a program on given, recorded or random inputs: a compiled .asyra "
      "file "
      "with its .safetensors, or a model, compiled as by asyra-opt.",
      "asyra-run");
  asyra::AddModelFlag(app, &flags.compile);
  asyra::AddCompileFlags(app, &flags.compile);
  std::vector<CLI::Option*> compiling = app.get_options();
  asyra::AddRunFlags(app, &flags);
  asyra::AddInputFlags(app, &flags.input);
  CLI::Option* output =
      app.add_option("--output", flags.output,
                     "folder for the outputs, each as a whole in a file of its "
                     "own, OUTPUT.npy; made if it is not there")
          ->check(asyra::OutputFolder());
  app.add_option("--output-form", flags.output_form,
                 "npy (bf16 becomes f32, which holds its values), pb "
                 "(TensorProto), or safetensors")
      ->check(CLI::IsMember({asyra::kNpy, asyra::kPb, asyra::kSafetensors}))
      ->needs(output)
      ->capture_default_str();
  app.add_option("--rtol", flags.rtol,
                 "relative tolerance; by the output's element type: 1e-4, "
                 "f16 2e-3, bf16 2e-2")
      ->check(asyra::FiniteFrom(0));
  app.add_option("--atol", flags.atol,
                 "absolute tolerance; 1e-5, f16 2e-3, bf16 2e-2")
      ->check(asyra::FiniteFrom(0));
  app.add_flag("--compare-single", flags.compare_single,
               "also runs the program unsharded on one device and compares: "
               "errors up to 1e-5, f16 2e-3, bf16 2e-2 of an output's largest "
               "magnitude pass");
  app.add_option(
      "--against", flags.against,
      "programs that take turns with this one, step by step: "
      "'unscheduled', the same before scheduling, or .asyra files of "
      "the same inputs; with --machine also the predicted times");
  app.add_option(
         "--gate", flags.gate,
         "measured: runs the program, the same before scheduling and those of "
         "--against some steps in turn, and goes on with the fastest, which is "
         "remembered for this machine; again: measures what is remembered too")
      ->check(CLI::IsMember(
          {asyra::kGateOff, asyra::kGateMeasured, asyra::kGateAgain}))
      ->capture_default_str();
  asyra::AddTuningFlags(app, &flags.tuning);
  app.add_option("--seed", flags.seed,
                 "of random inputs and weights: the same values on any mesh")
      ->capture_default_str();
  app.add_flag("--random-weights", flags.random_weights,
               "random values for weights that a program file has no data for, "
               "those of init.asyra where that is beside a training step; "
               "weights of a model without data are always random");
  app.footer(
      "Tuning results and compiled kernels of GPUs, and what --gate has "
      "decided, are kept in $ASYRA_CACHE_DIR, or ~/.cache/asyra; set and "
      "empty: nowhere.");
  return asyra::RunTool(app, argc, argv, [&] {
    flags.predict = app.count("--machine") > 0;
    flags.given = asyra::GivenFlags(app.get_options());
    flags.of_compiling = asyra::GivenFlags(compiling);
    return asyra::Main(
        flags, asyra::FlagsToAgreeOn(app, asyra::RunFlagsThatMayDiffer()));
  });
}
