// asyra-train: trains a model on a file of tokens, or replays a recorded run.
#include <filesystem>

#include "CLI/CLI.hpp"
#include "executor/launched_world.h"
#include "executor/train/checkpoint.h"
#include "executor/train/token_batches.h"
#include "executor/train/token_reader.h"
#include "ir/support/path.h"
#include "ir/support/short_list.h"
#include "ir/support/status.h"
#include "passes/raise/mask_documents.h"
#include "tools/compile.h"
#include "tools/connect_ranks.h"
#include "tools/given_flags.h"
#include "tools/idle_flags.h"
#include "tools/progress.h"
#include "tools/rank_flags.h"
#include "tools/run/cache_warning.h"
#include "tools/run_tool.h"
#include "tools/standard_output.h"
#include "tools/train/compile_training.h"
#include "tools/train/train_flags.h"
#include "tools/train/train_loop.h"
#include "tools/train/train_replay.h"
#include "tools/train/train_settings.h"

namespace asyra {
namespace {

constexpr int64_t kSearchStepsOnCpu = 200;

// Sets how many documents a row has to what the data has.
absl::Status CountDocuments(const TrainSettings& flags, Program* program) {
  ASYRA_ASSIGN_OR_RETURN(TokenFiles files,
                         TokenFiles::Open(flags.data, flags.tokens));
  ASYRA_ASSIGN_OR_RETURN(const Input* tokens, TokensOf(*program));
  ASYRA_ASSIGN_OR_RETURN(
      int64_t documents,
      DocumentsOfAWindow(files, *flags.document_end,
                         program->type(tokens->value).size(1)));
  SetDocuments(documents, program);
  return absl::OkStatus();
}

// The training of a folder, or of a model that is compiled here.
absl::StatusOr<TrainingPrograms> LoadPrograms(const TrainSettings& flags) {
  if (IsTrainingFolder(flags.compile.model)) {
    if (!flags.of_compiling.empty()) {
      return Invalid("{}: it is compiled already, {} would not matter",
                     flags.compile.model, ShortList(flags.of_compiling));
    }
    return ReadTrainingFolder(flags.compile.model);
  }
  CompileFlags compile = flags.compile;
  bool counts = flags.document_end.has_value() && compile.documents == 0;
  if (counts) compile.documents = 1;
  ASYRA_ASSIGN_OR_RETURN(RaisedModel model, LoadForTraining(compile));
  if (counts) {
    ASYRA_RETURN_IF_ERROR(CountDocuments(flags, &model.raised.program));
  }
  ASYRA_RETURN_IF_ERROR(CheckTarget(compile));
  ASYRA_ASSIGN_OR_RETURN(CompiledTraining training,
                         CompileTraining(compile, model));
  return ProgramsOf(training, compile);
}

// Before steps are taken that could not be saved.
absl::Status MakeCheckpointFolder(const TrainSettings& flags) {
  if (flags.checkpoint.empty() || flags.dry_run) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(flags.checkpoint, error);
  if (!error) return absl::OkStatus();
  return Invalid("--checkpoint {}: {}", flags.checkpoint, error.message());
}

LaunchOptions Launch(const TrainSettings& flags) {
  return {.communicator = flags.communicator,
          .device = flags.device,
          .timeout_s = flags.timeout_s,
          .secret_file = flags.secret_file};
}

absl::Status TrainAsRank(const TrainSettings& flags,
                         const LaunchedWorld& launched) {
  ASYRA_RETURN_IF_ERROR(MakeCheckpointFolder(flags));
  ASYRA_ASSIGN_OR_RETURN(TrainingPrograms programs, LoadPrograms(flags));
  return TrainOnData(flags, programs, launched);
}

// `choices` of this rank, which all must have, are compared before anything
// else: a program may take minutes to compile. Then comes what `checked` says.
absl::Status Train(const TrainSettings& flags,
                   const std::vector<NamedChoice>& choices,
                   const absl::Status& checked) {
  LaunchedWorld launched;
  if (!flags.dry_run) {
    ASYRA_ASSIGN_OR_RETURN(launched, ConnectRanks(Launch(flags), checked));
  }
  return RunAgreed(launched.world.get(), choices, checked,
                   [&] { return TrainAsRank(flags, launched); });
}

// Prints what the model writes with the params of the newest checkpoint.
absl::Status Sample(const TrainSettings& flags) {
  ASYRA_ASSIGN_OR_RETURN(RaisedModel model, LoadForTraining(flags.compile));
  ASYRA_ASSIGN_OR_RETURN(std::string folder,
                         NewestCheckpoint(flags.checkpoint, nullptr));
  if (folder.empty()) {
    return NotFound("{}: it has no checkpoint", flags.checkpoint);
  }
  ASYRA_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(folder));
  ASYRA_RETURN_IF_ERROR(checkpoint.CheckData(0, 1));
  SampleOptions options = flags.sample;
  options.seed = flags.seed;
  // Params have the names and ties of the run.
  Program program = model.raised.program;
  TrainOptions train = flags.train;
  train.what = TrainOptions::What::kForward;
  PassContext context;
  ASYRA_RETURN_IF_ERROR(RunPasses(program, TrainPasses(train), context));
  absl::StatusOr<std::string> text =
      SampleText(program, checkpoint.tensors(), options);
  if (!text.ok()) return Annotate(text.status(), folder);
  Print("{}\n", *text);
  return absl::OkStatus();
}

absl::Status CheckFlags(const TrainSettings& flags) {
  ASYRA_RETURN_IF_ERROR(CheckSettings(flags));
  if (flags.sample.count > 0) return absl::OkStatus();
  return CheckNoneIdle(flags.of_compiling, {flags.compile});
}

absl::Status Main(TrainSettings flags,
                  const std::vector<NamedChoice>& choices) {
  flags.compile.train = flags.train;
  absl::Status checked = CheckFlags(flags);
  bool trains = flags.sample.count == 0 && flags.check.empty();
  absl::StatusOr<bool> processes = RanksAreProcesses(Launch(flags));
  // Other processes are told of it.
  bool tells = trains && processes.value_or(false);
  if (!checked.ok() && !tells) return checked;
  ASYRA_ASSIGN_OR_RETURN(
      flags.session,
      TuningSession::Begin(flags.tuning, DiskCache::OfProcess()));
  if (flags.device == "cuda") {
    flags.compile.graph = true;
    ASYRA_RETURN_IF_ERROR(processes.status());
    // Copies between GPUs go by it.
    if (flags.compile.ranks_as == "auto") {
      flags.compile.ranks_as = *processes ? kRanksAsProcesses : "threads";
    }
  }
  absl::Status status = flags.sample.count > 0  ? Sample(flags)
                        : trains                ? Train(flags, choices, checked)
                        : IsFolder(flags.check) ? CheckFolder(flags)
                                                : ReplayRun(flags);
  WarnOfCache("asyra-train");
  return status;
}

}  // namespace
}  // namespace asyra

int main(int argc, char** argv) {
  asyra::TrainSettings flags;
  CLI::App app(
      "Trains a model on a file of tokens: compiles its training step for a "
      "mesh, or takes a folder of asyra-opt --train, and runs it on ranks that "
      "are threads, or processes that mpirun, srun or torchrun has started. "
      "With --check it compares with a recorded run, with --sample it prints "
      "what a trained model writes.",
      "asyra-train");
  asyra::AddModelFlag(app, &flags.compile);
  asyra::AddCompileFlags(app, &flags.compile);
  // The inputs that are data have another flag in the other tools.
  app.remove_option(app.get_option("--data"));
  asyra::AddTrainFlags(app, &flags.train, "--train,--train-also");
  std::vector<CLI::Option*> compiling = app.get_options();
  flags.compile.progress = asyra::Progress("asyra-train");
  asyra::AddSettings(app, &flags);
  return asyra::RunTool(app, argc, argv, [&] {
    flags.given = asyra::GivenFlags(app.get_options());
    flags.of_compiling = asyra::GivenFlags(compiling);
    // On cpus a schedule that was searched for a GPU does not pay its time.
    if (flags.device == "cpu" && app.count("--search-steps") == 0) {
      flags.compile.search_steps = asyra::kSearchStepsOnCpu;
    }
    return asyra::Main(
        flags, asyra::FlagsToAgreeOn(app, asyra::TrainFlagsThatMayDiffer()));
  });
}
