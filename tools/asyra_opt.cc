// asyra-opt: compiles a model to a scheduled program.
#include <filesystem>

#include "CLI/CLI.hpp"
#include "executor/train/training_folder.h"
#include "ir/printer.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/weights/weight_store.h"
#include "models/models.h"
#include "models/rotary_tables.h"
#include "passes/catalogue.h"
#include "passes/search/ablation.h"
#include "simulator/report/page.h"
#include "simulator/report/trace.h"
#include "tools/compile.h"
#include "tools/given_flags.h"
#include "tools/idle_flags.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "tools/report/chunk_plans.h"
#include "tools/report/report.h"
#include "tools/report/schedule_report.h"
#include "tools/run_tool.h"
#include "tools/standard_output.h"
#include "tools/train/compile_training.h"
#include "tools/train/train_flags.h"

namespace asyra {
namespace {

struct Flags {
  CompileFlags compile;
  std::string output;
  std::string report = "text";
  bool print_plan = false, ablation = false, verbose = false;
  bool print_chunk_plans = false;
  std::string trace, html;
  bool train = false;
  TrainOptions train_options;
  std::vector<std::string> given;
};

// Writes the weights first, so that an existing program file always has its
// weights, and removes them if writing the program fails.
absl::Status WriteProgram(const Program& program, const std::string& path) {
  bool has_weights = program.weights != nullptr && program.weights->size() > 0;
  if (has_weights) {
    ASYRA_RETURN_IF_ERROR(WriteWeights(*program.weights, WeightPathFor(path)));
  }
  absl::Status written = WriteFileAtomically(path, {ToString(program)});
  if (!written.ok() && has_weights) {
    std::error_code ignored;
    std::filesystem::remove(WeightPathFor(path), ignored);
  }
  return written;
}

// The step before and after scheduling, if it was scheduled here.
std::string HtmlPage(const Steps& steps, std::vector<std::string> notes) {
  Profile after = steps.after;
  after.notes = std::move(notes);
  if (!steps.before.has_value()) return ProfilePage({after});
  return ProfilePage({*steps.before, after},
                     {.names = {"unscheduled", "scheduled"}});
}

// The same as a trace.
std::string Trace(const CompiledModel& result) {
  std::vector<TracedStep> steps;
  steps.push_back({result.program, *result.simulated, "optimized"});
  if (result.schedule.has_value()) {
    steps.push_back(
        {*result.partitioned, result.schedule->baseline, "baseline"});
  }
  return WriteChromeTrace(steps, result.costs->machine());
}

absl::Status WriteSimulated(const Flags& flags, const CompiledModel& result,
                            const std::optional<Steps>& steps,
                            const ReportOptions& options) {
  for (auto [flag, path] :
       {std::pair{"--trace", &flags.trace}, std::pair{"--html", &flags.html}}) {
    if (path->empty() || steps.has_value()) continue;
    return Invalid("{}: a program of stage {} is not simulated", flag,
                   ToString(result.program.stage));
  }
  if (!flags.trace.empty()) {
    ASYRA_RETURN_IF_ERROR(WriteTextFile(flags.trace, Trace(result)));
  }
  if (flags.html.empty()) return absl::OkStatus();
  return WriteTextFile(
      flags.html, HtmlPage(*steps, NotesOf(flags.compile, result, options)));
}

absl::StatusOr<std::vector<AblationRow>> AblationOf(
    const Flags& flags, const CompiledModel& result) {
  if (!result.schedule.has_value()) {
    return Invalid("--ablation: {}",
                   flags.compile.passes.empty()
                       ? "the program came with its schedule"
                       : "--passes do what they say, nothing is left out");
  }
  ASYRA_ASSIGN_OR_RETURN(CompileOptions options, OptionsOf(flags.compile));
  PassContext context;
  context.costs = result.costs.get();
  context.dim_names = result.dim_names;
  return Ablation(*result.partitioned, ScheduleOptionsOf(options), context);
}

// The other tools know a program by its suffix.
absl::Status CheckOutput(const std::string& path) {
  if (path.empty() || std::filesystem::path(path).extension() == ".asyra") {
    return absl::OkStatus();
  }
  return Invalid("-o {}: a program's file should end in .asyra", path);
}

// A training step, with the programs beside it in -o. `batches` is set where it
// has several.
absl::StatusOr<CompiledModel> CompileStep(
    const Flags& flags, std::optional<BatchesReport>* batches) {
  ASYRA_RETURN_IF_ERROR(CheckTarget(flags.compile));
  ASYRA_ASSIGN_OR_RETURN(RaisedModel model, LoadRaised(flags.compile));
  AddRotaryTables(RotaryBase(flags.compile.model), &model.raised.program);
  int64_t count = flags.compile.train->accumulate;
  auto told = [&](CompiledTraining training) {
    CompiledModel step = Told(flags.compile, model, std::move(training.step));
    if (training.accumulate.has_value()) {
      *batches = ReportBatches(*training.accumulate, step, count);
    }
    return step;
  };
  if (flags.output.empty()) {
    ASYRA_ASSIGN_OR_RETURN(CompiledTraining steps,
                           CompileSteps(flags.compile, model));
    return told(std::move(steps));
  }
  ASYRA_ASSIGN_OR_RETURN(CompiledTraining training,
                         CompileTraining(flags.compile, model));
  ASYRA_ASSIGN_OR_RETURN(TrainingPrograms programs,
                         ProgramsOf(training, flags.compile));
  ASYRA_RETURN_IF_ERROR(WriteTrainingFolder(programs, flags.output));
  return told(std::move(training));
}

absl::StatusOr<CompiledModel> CompileModel(const Flags& flags) {
  ASYRA_RETURN_IF_ERROR(CheckOutput(flags.output));
  ASYRA_ASSIGN_OR_RETURN(CompiledModel result, Compile(flags.compile));
  if (!flags.output.empty()) {
    ASYRA_RETURN_IF_ERROR(WriteProgram(result.program, flags.output));
  }
  return result;
}

absl::Status CheckEstimate(const Flags& flags) {
  if (!flags.compile.estimate) return absl::OkStatus();
  if (!flags.output.empty()) {
    return Invalid("-o {}: --estimate makes no program to run", flags.output);
  }
  if (flags.ablation) {
    return Invalid("--ablation: --estimate searches no schedule");
  }
  return absl::OkStatus();
}

absl::Status Run(const Flags& given) {
  Flags flags = given;
  if (flags.train) flags.compile.train = flags.train_options;
  ASYRA_RETURN_IF_ERROR(CheckNoneIdle(flags.given, {flags.compile}));
  if (flags.verbose && flags.report == "json") {
    return Invalid("--verbose has no effect with --report json");
  }
  if (flags.print_chunk_plans && flags.report == "json") {
    return Invalid("--print-chunk-plans has no effect with --report json");
  }
  ASYRA_RETURN_IF_ERROR(CheckEstimate(flags));
  std::optional<BatchesReport> batches;
  ASYRA_ASSIGN_OR_RETURN(
      CompiledModel result,
      flags.train ? CompileStep(flags, &batches) : CompileModel(flags));
  std::optional<Steps> steps;
  if (result.simulated.has_value()) steps = StepsOf(flags.compile, result);
  if (flags.print_plan && !result.partitioned.has_value()) {
    return Invalid("--print-plan: a program of stage {} is not sharded",
                   ToString(result.program.stage));
  }
  ReportOptions options{.advice = AdviseMesh(flags.compile, result),
                        .verbose = flags.verbose,
                        .plan = flags.print_plan,
                        .batches = batches};
  ASYRA_RETURN_IF_ERROR(WriteSimulated(flags, result, steps, options));
  if (flags.ablation) {
    ASYRA_ASSIGN_OR_RETURN(options.ablation, AblationOf(flags, result));
  }
  std::string report = flags.report == "json"
                           ? JsonReport(flags.compile, result, steps, options)
                           : TextReport(flags.compile, result, steps, options);
  Progress::Erase();
  PrintText(report);
  if (flags.print_chunk_plans) PrintText(ChunkPlansText(result.program));
  return steps.has_value() ? CheckCapacity(steps->after, batches)
                           : absl::OkStatus();
}

}  // namespace
}  // namespace asyra

int main(int argc, char** argv) {
  asyra::Flags flags;
  CLI::App app(
      "Compiles a model: shards it over a mesh, tiles and reorders "
      "it so that communication hides behind computation, and "
      "reports what the simulator says.",
      "asyra-opt");
  asyra::AddModelFlag(app, &flags.compile);
  asyra::AddCompileFlags(app, &flags.compile);
  asyra::AddEstimateFlag(app, &flags.compile);
  flags.compile.progress = asyra::Progress("asyra-opt");
  app.add_option("-o,--output", flags.output,
                 "FILE.asyra: writes the program here, its weights beside it");
  app.add_flag_callback(
      "--list-passes",
      [] {
        asyra::PrintText(asyra::PassCatalogue());
        throw CLI::Success();
      },
      "prints the passes and their options");
  asyra::AddTrainFlag(
      app,
      "makes a training step of it: loss, gradients and updates; -o "
      "is then a folder that gets the step and the programs beside it",
      &flags.train, &flags.train_options);
  app.add_flag("--print-plan", flags.print_plan,
               "prints how weights and layers are sharded, and what each "
               "collective moves");
  app.add_flag("--print-chunk-plans", flags.print_chunk_plans,
               "prints the steps of each rank in the ops that --overlap forms: "
               "a plan to edit, for --passes form_overlaps{plan=FILE}");
  app.add_flag("--ablation", flags.ablation,
               "prints the gain of tiling, reordering and bucketing, one after "
               "the other");
  app.add_option("--trace", flags.trace,
                 "writes the simulated step here, for ui.perfetto.dev: before "
                 "and after scheduling")
      ->check(asyra::OutputFile());
  app.add_option("--html", flags.html,
                 "writes a page for a browser here: the step before and after "
                 "scheduling")
      ->check(asyra::OutputFile());
  app.add_flag(
      "--verbose", flags.verbose,
      "prints also the ops, the weights, the step before and after, all "
      "schedules that were tried, and every note of the passes");
  app.add_option("--report", flags.report, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  return asyra::RunTool(app, argc, argv, [&] {
    flags.given = asyra::GivenFlags(app.get_options());
    return asyra::Run(flags);
  });
}
