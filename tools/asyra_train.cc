// asyra-train: trains a model on a file of tokens, or replays a recorded run.
#include <cstdio>
#include <filesystem>

#include "CLI/CLI.hpp"
#include "ir/support/short_list.h"
#include "ir/support/status.h"
#include "passes/train/attach_loss.h"
#include "tools/cache_warning.h"
#include "tools/compile.h"
#include "tools/progress.h"
#include "tools/run_tool.h"
#include "tools/token_file.h"
#include "tools/train_data.h"
#include "tools/train_flags.h"
#include "tools/train_progress.h"
#include "tools/train_replay.h"
#include "tools/train_run.h"
#include "tools/train_settings.h"
#include "tools/training.h"

namespace asyra {
namespace {

constexpr int64_t kSearchStepsOnCpu = 200;

// The training of a folder, or of a model that is compiled here.
absl::StatusOr<Training> LoadTraining(const TrainSettings& flags) {
  if (std::filesystem::is_directory(flags.compile.model)) {
    if (!flags.of_compiling.empty()) {
      return Invalid("{}: it is compiled already, {} would not matter",
                     flags.compile.model, ShortList(flags.of_compiling));
    }
    return ReadTraining(flags.compile.model);
  }
  ASYRA_ASSIGN_OR_RETURN(RaisedModel model, LoadForTraining(flags.compile));
  ASYRA_RETURN_IF_ERROR(CheckTarget(flags.compile));
  return CompileTraining(flags.compile, model);
}

absl::Status TrainOnData(const TrainSettings& flags) {
  ASYRA_ASSIGN_OR_RETURN(TokenFile file, TokenFile::Open(flags.data));
  ASYRA_ASSIGN_OR_RETURN(Training training, LoadTraining(flags));
  if (flags.random_weights) StartFromInit(&training);
  const Program& step = training.step.program;
  ASYRA_ASSIGN_OR_RETURN(const Input* tokens, TokensOf(step));
  ASYRA_RETURN_IF_ERROR(CheckData(file, step, *tokens, flags.data));
  Shape shape = step.type(tokens->value).shape();
  std::string name = step.value_name(tokens->value);
  ASYRA_RETURN_IF_ERROR(file.At(0, shape[0], shape[1]).status());
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Platform> platform, PlatformOf(flags));
  int64_t warmup = flags.warmup >= 0 ? flags.warmup
                                     : std::min<int64_t>(flags.steps / 10, 100);
  TrainProgress progress(flags, shape[0] * shape[1], flags.steps);
  fmt::print("{} on {}: {} {} of {} tokens a step, {} {} of data\n",
             flags.compile.model, ToString(step.mesh), shape[0],
             shape[0] == 1 ? "row" : "rows", shape[1], file.size(),
             file.is_bytes() ? "bytes" : "tokens");
  if (!training.made.empty()) {
    fmt::print("{} of the params begin with random values, seed {}\n",
               training.made.size(), flags.seed);
  }
  TrainRun run{.training = &training,
               .platform = platform.get(),
               .steps = flags.steps,
               .seed = flags.seed,
               .timeout_s = flags.timeout_s};
  run.data = [&](int64_t number) -> absl::StatusOr<TrainData> {
    ASYRA_ASSIGN_OR_RETURN(TokenFile::Batch batch,
                           file.At(number, shape[0], shape[1]));
    TrainData data = {{name, batch.tokens}, {kLabels, batch.labels}};
    ASYRA_RETURN_IF_ERROR(AddOthers(step, &data));
    return data;
  };
  run.rate = [&](int64_t number) { return RateAt(flags, warmup, number); };
  run.report = [&](const TrainMetrics& one) { progress.Add(one); };
  ASYRA_ASSIGN_OR_RETURN(TrainResult result, Train(run));
  fmt::print("memory {:.1f} MiB a device\n",
             static_cast<double>(result.memory.total()) / (1 << 20));
  return progress.Write(flags.compile.model);
}

absl::Status Main(TrainSettings flags) {
  ASYRA_RETURN_IF_ERROR(CheckSettings(flags));
  flags.compile.train = flags.train;
  if (flags.device == "cuda") flags.compile.graph = true;
  absl::Status status = flags.check.empty() ? TrainOnData(flags)
                        : std::filesystem::is_directory(flags.check)
                            ? CheckFolder(flags)
                            : ReplayRun(flags);
  WarnOfCache("asyra-train");
  return status;
}

// Those of `options` that were given.
std::vector<std::string> Given(const std::vector<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) {
    bool flag = !option->get_positional() && option->get_name() != "--help";
    if (flag && option->count() > 0) names.push_back(option->get_name());
  }
  return names;
}

}  // namespace
}  // namespace asyra

int main(int argc, char** argv) {
  asyra::TrainSettings flags;
  CLI::App app(
      "Trains a model on a file of tokens: compiles its training step for a "
      "mesh and runs it on ranks that are threads. With --check it compares "
      "with a recorded run.",
      "asyra-train");
  asyra::AddModelFlag(app, &flags.compile);
  asyra::AddCompileFlags(app, &flags.compile);
  // Which inputs are data has another flag in the other tools.
  app.remove_option(app.get_option("--data"));
  asyra::AddTrainFlags(app, &flags.train);
  std::vector<CLI::Option*> compiling = app.get_options();
  flags.compile.progress = asyra::Progress("asyra-train");
  asyra::AddSettings(app, &flags);
  return asyra::RunTool(app, argc, argv, [&] {
    flags.of_compiling = asyra::Given(compiling);
    // On cpus a schedule that was searched for a GPU does not pay its time.
    if (flags.device == "cpu" && app.count("--search-steps") == 0) {
      flags.compile.search_steps = asyra::kSearchStepsOnCpu;
    }
    return asyra::Main(flags);
  });
}
