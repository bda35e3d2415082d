// asyra-sim: estimates the step of a model on a machine, and explains it; needs
// no GPU.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "CLI/CLI.hpp"
#include "absl/algorithm/container.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "nlohmann/json.hpp"
#include "passes/analysis/step_shape.h"
#include "passes/retune.h"
#include "simulator/replay/sensitivity.h"
#include "simulator/report/page.h"
#include "simulator/report/profile_diff.h"
#include "simulator/report/profile_json.h"
#include "simulator/report/report.h"
#include "simulator/report/trace.h"
#include "tools/compile.h"
#include "tools/given_flags.h"
#include "tools/idle_flags.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "tools/report/batches_report.h"
#include "tools/report/train_report.h"
#include "tools/run_tool.h"
#include "tools/standard_output.h"
#include "tools/train/compile_training.h"
#include "tools/train/train_flags.h"
#include "tools/what_if/mesh_grid.h"
#include "tools/what_if/sweep.h"

namespace asyra {
namespace {

constexpr int kSweepSearchSteps = 200;  // of a point, unless asked for

struct Flags {
  CompileFlags compile;
  bool strict = false, train = false;
  TrainOptions train_options;
  std::string json, trace, html;
  // sweep
  std::vector<std::string> grid;
  std::string csv;
  int threads = 0, search_best = 0;
  // compare
  std::string before, after;
  std::vector<std::string> given;  // flags of the subcommand
};

// "-" is stdout.
absl::Status Write(const std::string& path, const std::string& text) {
  if (path != "-") return WriteTextFile(path, text);
  Progress::Erase();
  PrintText(text);
  return absl::OkStatus();
}

// Text for people goes to stdout unless JSON does.
void Print(const Flags& flags, const std::string& text) {
  if (flags.json == "-") return;
  Progress::Erase();
  PrintText(text);
}

struct Simulated {
  CompiledModel compiled;
  Profile profile;
  std::optional<TrainReport> training;   // of a training step
  std::optional<BatchesReport> batches;  // of one with several; the last is it
};

absl::StatusOr<Simulated> SimulateModel(const Flags& flags,
                                        const CompileFlags& compile) {
  Simulated result;
  CompileFlags options = compile;
  options.measured_only = flags.strict;
  options.allow_misfit = true;  // CheckCapacity reports what fills the device
  ASYRA_RETURN_IF_ERROR(CheckTarget(options));
  ASYRA_ASSIGN_OR_RETURN(RaisedModel model, LoadRaised(options));
  ASYRA_ASSIGN_OR_RETURN(result.compiled, Compile(options, model));
  Print(flags,
        WeightsFromInputsLine(compile.model, result.compiled.lacking_weights));
  if (!result.compiled.simulated.has_value()) {
    return Invalid("{}: a program of stage {} is not simulated", compile.model,
                   ToString(result.compiled.program.stage));
  }
  if (flags.strict) {
    ASYRA_RETURN_IF_ERROR(
        Annotate(CheckMeasured(result.compiled.program,
                               result.compiled.simulated->op_costs),
                 compile.model));
  }
  result.profile = MakeProfile(
      result.compiled.program, *result.compiled.simulated,
      *result.compiled.costs,
      {.model = compile.model,
       .step = StepShapeOf(result.compiled.raised, result.compiled.dim_names),
       .noise = result.compiled.noise,
       .capacity_gib = compile.capacity_gib});
  result.training =
      ReportTraining(result.compiled.program, *result.compiled.simulated,
                     result.compiled.costs->machine(), &result.profile);
  if (result.training.has_value()) {
    result.training->recompute = result.compiled.recompute;
    result.training->loss_chunks = result.compiled.loss_chunks;
  }
  if (result.training.has_value() && compile.train.has_value() &&
      compile.train->accumulate > 1) {
    ASYRA_ASSIGN_OR_RETURN(CompileResult others,
                           CompileAccumulate(options, model, result.compiled));
    result.batches =
        ReportBatches(others, result.compiled, compile.train->accumulate);
  }
  // Each strategy says which weights are not trained, and the like.
  std::vector<std::string>& notes = result.profile.notes;
  for (const PassTiming& timing : result.compiled.timings) {
    if (timing.pass != "tie_weights" && timing.pass != "mark_params" &&
        timing.pass != "differentiate") {
      continue;
    }
    for (const std::string& remark : timing.remarks) {
      if (!absl::c_linear_search(notes, remark)) notes.push_back(remark);
    }
  }
  absl::c_copy(result.compiled.notes, std::back_inserter(notes));
  return result;
}

std::string JsonOf(const Simulated& result) {
  std::string text = ProfileJson(result.profile);
  if (!result.training.has_value()) return text;
  auto json = nlohmann::ordered_json::parse(text);
  json["training"] = TrainJson(*result.training);
  if (result.batches.has_value()) {
    json["accumulate"] = BatchesJson(*result.batches);
  }
  return json.dump() + "\n";
}

std::string TextOf(const Simulated& result) {
  std::string text = Report(result.profile);
  if (result.training.has_value()) text += TrainText(*result.training);
  if (result.batches.has_value()) text += BatchesText(*result.batches);
  return text;
}

absl::Status WriteOutputs(const Flags& flags, const Simulated& result) {
  if (!flags.json.empty()) {
    ASYRA_RETURN_IF_ERROR(Write(flags.json, JsonOf(result)));
  }
  if (!flags.trace.empty()) {
    ASYRA_RETURN_IF_ERROR(Write(
        flags.trace,
        WriteChromeTrace(result.compiled.program, *result.compiled.simulated,
                         result.compiled.costs->machine())));
  }
  if (!flags.html.empty()) {
    ASYRA_RETURN_IF_ERROR(Write(flags.html, ProfilePage({result.profile})));
  }
  return absl::OkStatus();
}

absl::Status RunOne(const Flags& flags) {
  ASYRA_RETURN_IF_ERROR(CheckNoneIdle(flags.given, {flags.compile}));
  ASYRA_ASSIGN_OR_RETURN(Simulated result, SimulateModel(flags, flags.compile));
  ASYRA_RETURN_IF_ERROR(WriteOutputs(flags, result));
  Print(flags, TextOf(result));
  return CheckCapacity(result.profile, result.batches);
}

absl::Status Explain(const Flags& flags) {
  ASYRA_RETURN_IF_ERROR(CheckNoneIdle(flags.given, {flags.compile}));
  ASYRA_ASSIGN_OR_RETURN(Simulated result, SimulateModel(flags, flags.compile));
  ASYRA_RETURN_IF_ERROR(WriteOutputs(flags, result));
  const Program& program = result.compiled.program;
  SensitivityOptions options{.costs = CostsOf(flags.compile)};
  // CTA counts other than the library's are rarely measured.
  if (!flags.strict) {
    options.retune = [&](const CostModel& costs) {
      return Retuned(program, costs);
    };
  }
  ASYRA_ASSIGN_OR_RETURN(std::vector<Sensitivity> sensitivities,
                         Sensitivities(program, flags.compile.machine,
                                       MachineEdits(flags.compile), options));
  Print(flags, TextOf(result) + OverlapReport(result.profile) +
                   CriticalPathReport(result.profile) +
                   SensitivityReport(sensitivities));
  return CheckCapacity(result.profile, result.batches);
}

// A .json file is read, everything else is compiled.
bool IsResult(const std::string& argument) {
  constexpr std::string_view kSuffix = ".json";
  return argument.size() > kSuffix.size() && argument.ends_with(kSuffix);
}

absl::StatusOr<Profile> LoadProfile(const Flags& flags,
                                    const std::string& argument) {
  if (IsResult(argument)) {
    ASYRA_ASSIGN_OR_RETURN(std::string text, ReadFile(argument));
    return ReadProfile(text, argument);
  }
  CompileFlags compile = flags.compile;
  compile.model = argument;
  ASYRA_ASSIGN_OR_RETURN(Simulated result, SimulateModel(flags, compile));
  return result.profile;
}

// Refuses several batches a step, for commands that show one program a model.
absl::Status CheckOneBatch(const Flags& flags) {
  if (!flags.train || flags.train_options.accumulate == 1) {
    return absl::OkStatus();
  }
  return Invalid(
      "--accumulate is {}: of steps of several batches, run and explain show "
      "one at a time",
      flags.train_options.accumulate);
}

// Refuses flags of the compiler where neither side is compiled.
absl::Status CheckCompared(const Flags& flags) {
  std::vector<std::string> given = flags.given;
  std::erase_if(given, [](const std::string& flag) {
    return flag == "--json" || flag == "--html";
  });
  std::vector<CompileFlags> compilations;
  for (const std::string& argument : {flags.before, flags.after}) {
    if (IsResult(argument)) continue;
    compilations.push_back(flags.compile);
    compilations.back().model = argument;
  }
  return CheckNoneIdle(given, compilations, "with two .json files");
}

absl::Status Compare(const Flags& flags) {
  ASYRA_RETURN_IF_ERROR(CheckCompared(flags));
  ASYRA_RETURN_IF_ERROR(CheckOneBatch(flags));
  ASYRA_ASSIGN_OR_RETURN(Profile before, LoadProfile(flags, flags.before));
  ASYRA_ASSIGN_OR_RETURN(Profile after, LoadProfile(flags, flags.after));
  if (!flags.json.empty()) {
    ASYRA_RETURN_IF_ERROR(Write(flags.json, DifferenceJson(before, after)));
  }
  if (!flags.html.empty()) {
    ASYRA_RETURN_IF_ERROR(Write(flags.html, ProfilePage({before, after})));
  }
  Print(flags, DifferenceReport(before, after));
  return absl::OkStatus();
}

// Shows how far a sweep is, and writes its rows as they come, so that one that
// is stopped keeps them. The calls of Sweep do not overlap.
class SweepWatch {
 public:
  explicit SweepWatch(const std::vector<GridAxis>& grid) : grid_(grid) {}

  absl::Status Open(const std::string& csv) {
    // A stream gets them all at the end.
    std::error_code none;
    bool stream = std::filesystem::exists(csv, none) &&
                  !std::filesystem::is_regular_file(csv, none);
    if (csv.empty() || csv == "-" || stream) return absl::OkStatus();
    file_.reset(std::fopen(csv.c_str(), "w"));
    if (file_ == nullptr) {
      return Invalid("--csv {}: {}", csv, std::strerror(errno));
    }
    WriteRow(SweepCsvHead(grid_));
    return absl::OkStatus();
  }
  // The file is complete, or about to be replaced.
  void Close() { file_.reset(); }

  void Finished(const SweepPoint& point) {
    WriteRow(SweepCsvRow(grid_, point, 0, /*marked=*/false));
    if (!point.valid() || !point.fits) return;
    if (best_us_ == 0 || point.makespan_us < best_us_) {
      best_us_ = point.makespan_us;
    }
  }

  void Show(size_t done, size_t all) {
    std::string text = fmt::format("{} of {} points", done, all);
    if (best_us_ > 0) text += fmt::format(", best {}", TimeText(best_us_));
    progress_(text);
  }

 private:
  struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void WriteRow(const std::string& row) {
    if (file_ == nullptr) return;
    std::fputs(row.c_str(), file_.get());
    std::fflush(file_.get());
  }

  const std::vector<GridAxis>& grid_;
  const Progress progress_{"asyra-sim"};
  std::unique_ptr<std::FILE, FileCloser> file_;
  double best_us_ = 0;
};

absl::Status RunSweep(const Flags& flags) {
  ASYRA_RETURN_IF_ERROR(CheckOneBatch(flags));
  if (flags.json == "-" && flags.csv == "-") {
    return Invalid("--json and --csv are both -, and stdout is one");
  }
  ASYRA_ASSIGN_OR_RETURN(std::vector<GridAxis> grid, ParseGrid(flags.grid));
  ASYRA_RETURN_IF_ERROR(ExpandMeshes(flags.compile, &grid));
  ASYRA_RETURN_IF_ERROR(CheckGridFlags(flags.given, flags.compile, grid));
  if (flags.compile.estimate && flags.search_best > 0) {
    return Invalid("--search-best has no effect with --estimate");
  }
  SweepWatch watch(grid);
  ASYRA_RETURN_IF_ERROR(watch.Open(flags.csv));
  ASYRA_ASSIGN_OR_RETURN(
      SweepResult result,
      Sweep(
          flags.compile, grid,
          {.threads = flags.threads,
           .strict = flags.strict,
           .search_best = flags.search_best,
           .progress = [&](size_t done, size_t all) { watch.Show(done, all); },
           .finished =
               [&](const SweepPoint& point) { watch.Finished(point); }}));
  watch.Close();
  const std::vector<SweepPoint>& points = result.points;
  std::string json = SweepJson(flags.compile.model, grid, result);
  if (!flags.json.empty()) ASYRA_RETURN_IF_ERROR(Write(flags.json, json));
  if (!flags.csv.empty()) {
    ASYRA_RETURN_IF_ERROR(Write(flags.csv, SweepCsv(grid, result)));
  }
  if (!flags.html.empty()) {
    ASYRA_RETURN_IF_ERROR(Write(flags.html, SweepPage(json)));
  }
  if (flags.csv != "-") {
    Print(flags,
          WeightsFromInputsLine(flags.compile.model, result.lacking_weights) +
              SweepText(grid, result));
  }
  return CheckAnyValid(grid, points);
}

void AddCommonFlags(CLI::App& app, Flags* flags) {
  AddCompileFlags(app, &flags->compile);
  app.add_flag("--strict", flags->strict,
               "refuses costs that were not measured or interpolated");
  AddTrainFlag(app,
               "simulates a training step of it: loss, gradients and updates",
               &flags->train, &flags->train_options);
  app.add_option("--json", flags->json,
                 "writes the result here; -: stdout, instead of the text")
      ->check(OutputFile());
  app.add_option("--html", flags->html,
                 "writes a page for a browser here, complete in one file")
      ->check(OutputFile());
}

void AddTraceFlag(CLI::App& app, Flags* flags) {
  app.add_option("--trace", flags->trace,
                 "writes the simulated step here, for ui.perfetto.dev")
      ->check(OutputFile());
}

using Command = absl::Status (*)(const Flags&);

// Adds the subcommands; `chosen` becomes the given one.
void AddCommands(CLI::App& app, Flags* flags, Command* chosen) {
  auto add = [&](const char* name, const char* summary, Command command) {
    CLI::App* sub = app.add_subcommand(name, summary);
    sub->callback([chosen, command] { *chosen = command; });
    return sub;
  };
  CLI::App* run = add("run", "simulates one step", RunOne);
  AddModelFlag(*run, &flags->compile);
  AddCommonFlags(*run, flags);
  AddEstimateFlag(*run, &flags->compile);
  AddTraceFlag(*run, flags);

  CLI::App* sweep =
      add("sweep", "simulates every point of a grid of options", RunSweep);
  AddModelFlag(*sweep, &flags->compile);
  AddCommonFlags(*sweep, flags);
  AddEstimateFlag(*sweep, &flags->compile);
  sweep
      ->add_option("--grid", flags->grid,
                   "KEY=VALUE,VALUE,...: a flag's name, dim.NAME or set.KEY "
                   "and its values, separated by ; where they have commas, "
                   "mesh=dp=2,tp=4;tp=8; mesh=auto: all of --ranks devices; "
                   "may be repeated")
      ->take_all()
      ->required();
  // Many points are worth more than the last percent of each.
  CLI::Option* steps = sweep->get_option("--search-steps")
                           ->default_str(fmt::format("{}", kSweepSearchSteps));
  sweep->callback([=] {
    if (steps->count() == 0) flags->compile.search_steps = kSweepSearchSteps;
    *chosen = RunSweep;
  });
  sweep->add_option("--csv", flags->csv, "writes the points here; -: stdout")
      ->check(OutputFile());
  sweep
      ->add_option("--search-best", flags->search_best,
                   "estimates all points as --estimate does, and searches "
                   "schedules for so many of each machine and --dim that "
                   "promise most; 0: for all")
      ->check(CLI::Range(0, 100000));
  sweep->add_option("--threads", flags->threads, "0: one per core")
      ->check(CLI::Range(0, 1024));

  CLI::App* compare = add("compare", "two steps, op by op", Compare);
  constexpr const char* kWhat =
      "a model or program to simulate, or a .json file of run --json, of run "
      "--trace or of a profiler";
  compare->add_option("BEFORE", flags->before, kWhat)->required();
  compare->add_option("AFTER", flags->after, kWhat)->required();
  AddCommonFlags(*compare, flags);

  CLI::App* explain =
      add("explain",
          "the critical path, the load of each resource, and what each number "
          "of the machine is worth",
          Explain);
  AddModelFlag(*explain, &flags->compile);
  AddCommonFlags(*explain, flags);
  AddTraceFlag(*explain, flags);
  app.require_subcommand(1);
}

}  // namespace
}  // namespace asyra

int main(int argc, char** argv) {
  asyra::Flags flags;
  asyra::Command command = nullptr;
  CLI::App app(
      "Simulates one step of a model, forward or with --train of training, on "
      "a machine that need not be there.",
      "asyra-sim");
  asyra::AddCommands(app, &flags, &command);
  asyra::Progress progress("asyra-sim");
  return asyra::RunTool(app, argc, argv, [&] {
    // Points of a sweep run side by side.
    if (!app.got_subcommand("sweep")) flags.compile.progress = progress;
    if (flags.train) flags.compile.train = flags.train_options;
    flags.given = asyra::GivenFlags(app.get_subcommands()[0]->get_options());
    return command(flags);
  });
}
