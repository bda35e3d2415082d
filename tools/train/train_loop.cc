#include "tools/train/train_loop.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>

#include "executor/comm/choices.h"
#include "executor/comm/thread_world.h"
#include "executor/launched_world.h"
#include "executor/trace.h"
#include "executor/train/export_params.h"
#include "executor/train/token_batches.h"
#include "executor/trainer.h"
#include "frontends/huggingface/export.h"
#include "frontends/huggingface/import.h"
#include "frontends/onnx/export.h"
#include "ir/support/file.h"
#include "ir/support/out_of_memory.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "ir/weights/weight_store.h"
#include "tools/run/run_gate.h"
#include "tools/standard_output.h"
#include "tools/train/step_timelines.h"
#include "tools/train/stop_signal.h"
#include "tools/train/train_gate.h"
#include "tools/train/train_progress.h"

namespace asyra {
namespace {

// Data that all ranks of the process share.
struct Data {
  std::shared_ptr<const TokenFiles> train, evaluate;  // null: none
  // Windows of `train`, and of `evaluate`.
  WindowRange windows, evaluate_windows;
  Shape shape;  // of a batch: rows, length
};

absl::StatusOr<std::shared_ptr<const TokenFiles>> OpenFiles(
    const std::vector<std::string>& names, TokenForm form) {
  ASYRA_ASSIGN_OR_RETURN(TokenFiles files, TokenFiles::Open(names, form));
  return std::make_shared<const TokenFiles>(std::move(files));
}

// Without files of its own, the evaluation takes the last windows.
absl::Status HoldOut(const TrainSettings& flags, Data* data) {
  int64_t rows = data->shape[0], length = data->shape[1];
  int64_t all = NumWindows(*data->train, length);
  int64_t held = flags.evaluate_batches * rows;
  if (all - held < rows) {
    return Invalid(
        "the data has {} rows of {} tokens; {} batches of {} rows to evaluate "
        "on leave less than a batch to train on: give --evaluate-data, or "
        "fewer --evaluate-batches",
        all, length, flags.evaluate_batches, rows);
  }
  data->windows = {0, all - held};
  data->evaluate = data->train;
  data->evaluate_windows = {all - held, held};
  return absl::OkStatus();
}

absl::StatusOr<Data> OpenData(const TrainSettings& flags,
                              const TrainingPrograms& programs) {
  Data data;
  ASYRA_ASSIGN_OR_RETURN(data.train, OpenFiles(flags.data, flags.tokens));
  ASYRA_ASSIGN_OR_RETURN(const Input* tokens, TokensOf(programs.step));
  data.shape = programs.step.type(tokens->value).shape();
  if (flags.evaluate_every == 0) return data;
  if (flags.evaluate_data.empty()) {
    ASYRA_RETURN_IF_ERROR(HoldOut(flags, &data));
    return data;
  }
  ASYRA_ASSIGN_OR_RETURN(data.evaluate,
                         OpenFiles(flags.evaluate_data, flags.tokens));
  return data;
}

// Processes open files of their own.
absl::Status CheckSameTokens(const TrainSettings& flags, const Data& data,
                             Communicator& world) {
  ASYRA_ASSIGN_OR_RETURN(std::string train, data.train->Identity());
  std::vector<NamedChoice> tokens = {{"--data", std::move(train)}};
  if (!flags.evaluate_data.empty()) {
    ASYRA_ASSIGN_OR_RETURN(std::string evaluate, data.evaluate->Identity());
    tokens.push_back({"--evaluate-data", std::move(evaluate)});
  }
  return CheckSameChoices(world, tokens);
}

// One rank of a run.
class RankLoop {
 public:
  // `begin`: when the rank began to make its device.
  RankLoop(const TrainSettings& flags, const TrainingPrograms& programs,
           const Data& data, Communicator& world,
           std::chrono::steady_clock::time_point begin)
      : begin_(begin),
        flags_(flags),
        programs_(programs),
        data_(data),
        world_(world),
        vote_(world),
        progress_(flags, *flags.steps) {}

  absl::Status Run(Device& device, Communicator& world, int64_t sharing) {
    ASYRA_ASSIGN_OR_RETURN(trainer_, Trainer::Create(programs_));
    ASYRA_RETURN_IF_ERROR(OpenBatches());
    TrainerOptions options{
        .resume_from = flags_.checkpoint,
        .seed = flags_.seed,
        .random_weights = flags_.random_weights,
        .not_finite =
            flags_.skip_not_finite ? NotFinite::kSkip : NotFinite::kStop,
        .check_finite = flags_.check_finite,
        .profile = !flags_.html.empty() || !flags_.profile.empty(),
        .evaluates = data_.evaluate != nullptr,
        .sharing = sharing,
        .checkpoints = {.keep = flags_.keep}};
    ASYRA_RETURN_IF_ERROR(trainer_->Prepare(device, &world, options));
    if (!flags_.checkpoint.empty()) {
      ASYRA_RETURN_IF_ERROR(trainer_->PrepareSave(flags_.checkpoint));
    }
    if (!flags_.restart_data) {
      absl::Status status = batches_->GoOnFrom(trainer_->data_place());
      if (!status.ok()) {
        return Invalid("{}: {}; --restart-data begins the data anew",
                       trainer_->restored_from(), MessageOf(status));
      }
    }
    restored_step_ = trainer_->step();
    if (reports()) ASYRA_RETURN_IF_ERROR(progress_.Begin());
    if (reports()) Announce();
    absl::Status status = WithinMemory([this] { return Steps(); });
    Report();
    if (absl::IsResourceExhausted(status)) {
      return Annotate(status, fmt::format("after step {}", trainer_->step()));
    }
    ASYRA_RETURN_IF_ERROR(status);
    return End();
  }

 private:
  bool reports() const { return world_.rank() == 0; }

  absl::Status OpenBatches() {
    TokenReaderOptions options{.shuffle = flags_.shuffle,
                               .seed = flags_.seed,
                               .windows = data_.windows,
                               .document_end = flags_.document_end};
    ASYRA_ASSIGN_OR_RETURN(
        batches_, TokenBatches::Open(data_.train, programs_.step, world_.rank(),
                                     options));
    if (data_.evaluate == nullptr) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(
        evaluated_,
        TokenBatches::Open(data_.evaluate, programs_.evaluate, world_.rank(),
                           {.windows = data_.evaluate_windows,
                            .document_end = flags_.document_end}));
    return absl::OkStatus();
  }

  void Announce() const {
    if (trainer_->restored_from().empty()) {
      size_t made =
          flags_.random_weights ? 0 : ParamsWithoutData(programs_.step).size();
      if (made > 0) {
        Print("{} of the params begin with random values, seed {}\n", made,
              flags_.seed);
      }
    } else {
      Print("goes on from {}, after step {}\n", trainer_->restored_from(),
            trainer_->step());
    }
    if (batches_->model_shifts()) {
      Print(
          "the model compares each token with a later one itself: its labels "
          "are the tokens, not the next ones\n");
    }
    if (!trainer_->save_note().empty()) {
      Print("note: {}\n", trainer_->save_note());
    }
    Print("memory {} a device\n", BytesText(trainer_->memory().total()));
    FlushOutput();
  }

  void Report() {
    for (const TrainMetrics& one : trainer_->TakeMetrics()) {
      step_s_ = one.seconds;
      if (!std::exchange(any_step_, true) && reports()) {
        std::chrono::duration<double> took =
            std::chrono::steady_clock::now() - begin_;
        Print("first step done {:.2f} s after the start of the ranks\n",
              took.count());
      }
      if (reports()) progress_.Add(one);
    }
  }

  absl::Status Steps() {
    while (trainer_->step() < *flags_.steps) {
      ASYRA_ASSIGN_OR_RETURN(bool stop,
                             vote_.ShallStop(trainer_->step(), step_s_));
      if (stop) {
        ASYRA_RETURN_IF_ERROR(trainer_->Finish());
        stopped_ = true;
        return absl::OkStatus();
      }
      for (int64_t i = 1; i < trainer_->batches_per_step(); ++i) {
        ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, batches_->Next());
        ASYRA_RETURN_IF_ERROR(trainer_->Accumulate(batch));
      }
      ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, batches_->Next());
      ASYRA_RETURN_IF_ERROR(
          trainer_->Step(batch, {.rate = RateAt(flags_, trainer_->step())}));
      Report();
      ASYRA_RETURN_IF_ERROR(AfterStep(trainer_->step()));
    }
    return trainer_->Finish();
  }

  absl::Status AfterStep(int64_t step) {
    if (data_.evaluate != nullptr && step % flags_.evaluate_every == 0) {
      ASYRA_RETURN_IF_ERROR(Evaluate());
    }
    bool saves = flags_.save_every > 0 && step % flags_.save_every == 0;
    return saves && step < *flags_.steps ? Save() : absl::OkStatus();
  }

  absl::Status Evaluate() {
    ASYRA_RETURN_IF_ERROR(trainer_->Finish());
    Report();
    evaluated_->Seek(0);
    Trainer::LossSum all;
    for (int64_t i = 0; i < flags_.evaluate_batches; ++i) {
      ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, evaluated_->Next());
      ASYRA_ASSIGN_OR_RETURN(Trainer::LossSum one, trainer_->Evaluate(batch));
      all.sum += one.sum;
      all.count += one.count;
    }
    if (all.count == 0) {
      return Invalid("evaluation after step {}: no label counts in its {} {}",
                     trainer_->step(), flags_.evaluate_batches,
                     flags_.evaluate_batches == 1 ? "batch" : "batches");
    }
    if (reports()) progress_.AddEvaluation(trainer_->step(), all.mean());
    return absl::OkStatus();
  }

  absl::Status Save() {
    ASYRA_RETURN_IF_ERROR(trainer_->Finish());
    Report();
    trainer_->set_data_place(batches_->place());
    return trainer_->Save(flags_.checkpoint);
  }

  absl::Status End() {
    bool is_saved = !trainer_->restored_from().empty() &&
                    trainer_->step() == restored_step_;
    if (is_saved) {
      if (reports()) {
        Print("no step was made: {} is after step {}, --steps is {}\n",
              trainer_->restored_from(), trainer_->step(), *flags_.steps);
      }
    } else if (!flags_.checkpoint.empty()) {
      ASYRA_RETURN_IF_ERROR(Save());
      ASYRA_RETURN_IF_ERROR(trainer_->FinishSave());
      if (reports()) {
        progress_.AddCheckpoint(trainer_->step(), trainer_->last_checkpoint());
        Print("{} after step {}; the checkpoint is {}\n",
              stopped_ ? "stopped" : "ended", trainer_->step(),
              trainer_->last_checkpoint());
      }
    } else if (stopped_ && reports()) {
      Print("stopped after step {}; there is no --checkpoint\n",
            trainer_->step());
    }
    ASYRA_RETURN_IF_ERROR(Export());
    if (!reports()) return absl::OkStatus();
    ASYRA_RETURN_IF_ERROR(WriteFiles());
    return progress_.CheckLog();
  }

  absl::Status Export() {
    if (!flags_.export_to.empty()) {
      ASYRA_RETURN_IF_ERROR(trainer_->Export(flags_.export_to));
    }
    if (flags_.export_onnx.empty() && flags_.export_hf.empty()) {
      return absl::OkStatus();
    }
    std::string tensors = flags_.export_to;
    if (tensors.empty()) {
      tensors =
          (flags_.export_onnx.empty() ? flags_.export_hf : flags_.export_onnx) +
          ".partial.safetensors";
      ASYRA_RETURN_IF_ERROR(trainer_->Export(tensors));
    }
    if (!reports()) return absl::OkStatus();
    absl::Status written = ExportModels(tensors);
    std::error_code error;
    if (flags_.export_to.empty()) std::filesystem::remove(tensors, error);
    return written;
  }

  // `tensors` is the file of all weights.
  absl::Status ExportModels(const std::string& tensors) {
    ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<const WeightStore> exported,
                           ReadWeights(tensors));
    const TrainingPrograms& programs = trainer_->programs();
    const std::string& model = programs.info.model;
    if (!flags_.export_onnx.empty()) {
      ASYRA_RETURN_IF_ERROR(ExportOnnx(
          model, TensorsOfFile(programs.step, *exported), flags_.export_onnx));
    }
    if (flags_.export_hf.empty()) return absl::OkStatus();
    std::string config = HuggingFaceConfig(model);
    if (config.empty()) {
      return Invalid("--export-hf: {} has no config.json", model);
    }
    return ExportHuggingFace(config, *exported, flags_.export_hf);
  }

  absl::Status WriteTrace(absl::Span<const OpTime> times) {
    if (flags_.profile.empty() || times.empty()) return absl::OkStatus();
    return WriteTextFile(flags_.profile,
                         WriteProfileTrace(trainer_->running_step(), 0, times));
  }

  absl::Status WriteFiles() {
    std::vector<Profile> timelines;
    std::vector<OpTime> times = trainer_->Profile();
    ASYRA_RETURN_IF_ERROR(WriteTrace(times));
    if (!flags_.html.empty() && !times.empty()) {
      ASYRA_ASSIGN_OR_RETURN(
          timelines, StepTimelines(programs_, MachineEdits(flags_.compile),
                                   {trainer_->running_step(), times,
                                    trainer_->step(), flags_.device}));
    }
    const std::string& model = programs_.info.model;
    return progress_.Write(model.empty() ? flags_.compile.model : model,
                           std::move(timelines));
  }

  const std::chrono::steady_clock::time_point begin_;
  bool any_step_ = false;
  const TrainSettings& flags_;
  const TrainingPrograms& programs_;
  const Data& data_;
  Communicator& world_;
  StopVote vote_;
  TrainProgress progress_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<TokenBatches> batches_, evaluated_;
  double step_s_ = 0;
  int64_t restored_step_ = 0;
  bool stopped_ = false;
};

void Describe(const TrainSettings& flags, const TrainingPrograms& programs,
              const Data& data) {
  int64_t rows = data.shape[0] * programs.info.batches;
  Print("{} on {}: {} {} of {} tokens a step{}, {} {} of data\n",
        flags.compile.model, ToString(programs.step.mesh), rows,
        rows == 1 ? "row" : "rows", data.shape[1],
        programs.info.batches == 1
            ? ""
            : fmt::format(", in {} batches", programs.info.batches),
        data.train->size(), data.train->is_bytes() ? "bytes" : "tokens");
  PrintNotes(programs.info.notes);
  FlushOutput();
}

absl::Status DryRun(const TrainingPrograms& programs, const Data& data) {
  ASYRA_ASSIGN_OR_RETURN(
      TrainingMemory memory,
      PlanTrainingMemory(programs, data.evaluate != nullptr));
  Print("memory: {}\n", ToString(memory));
  size_t ops = programs.step.ops.size();
  auto collectives =
      std::count_if(programs.step.ops.begin(), programs.step.ops.end(),
                    [](const Op& op) { return op.is_collective(); });
  Print("{} op{}, {} collective{} a step\n", ops, ops == 1 ? "" : "s",
        collectives, collectives == 1 ? "" : "s");
  const TrainingInfo& info = programs.info;
  if (info.predicted_us <= 0) return absl::OkStatus();
  Print("predicted on {}: {} a step, {:.0f} tokens/s, MFU {:.1f} %\n",
        info.machine, TimeText(info.predicted_us),
        1e6 *
            static_cast<double>(info.batches * data.shape[0] * data.shape[1]) /
            info.predicted_us,
        100 * static_cast<double>(info.batches) * info.peak_us /
            info.predicted_us);
  return absl::OkStatus();
}

// The programs of a run: those that were given, or with --gate one of the
// choices.
struct Choice {
  const TrainingPrograms& given;
  std::vector<StepChoice> choices;  // none without --gate
};

absl::StatusOr<const TrainingPrograms*> PassGate(
    const TrainSettings& flags, const Choice& programs, const Data& data,
    Device& device, Communicator& world, int64_t sharing) {
  if (programs.choices.empty()) return &programs.given;
  ASYRA_ASSIGN_OR_RETURN(
      GateResult gate,
      ChooseStep(flags, programs.choices, data.train, device, world, sharing));
  if (world.rank() == 0) {
    Print("gate: {}\n", ToString(gate));
    FlushOutput();
  }
  return &programs.choices[gate.kept].programs;
}

// A rank of this process, whose host threads or processes `control` connects.
absl::Status RunRank(const TrainSettings& flags, const Choice& programs,
                     const Data& data, Platform& platform,
                     Communicator& control, int64_t local_rank,
                     int64_t ranks_on_host) {
  auto begin = std::chrono::steady_clock::now();
  ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                         platform.MakeDevice(local_rank, ranks_on_host));
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> connected,
                         platform.Connect(control, *device));
  Communicator& world = connected == nullptr ? control : *connected;
  // GPUs have memory of their own.
  int64_t sharing = flags.device == "cpu" ? ranks_on_host : 1;
  ASYRA_ASSIGN_OR_RETURN(
      const TrainingPrograms* kept,
      PassGate(flags, programs, data, *device, world, sharing));
  return RankLoop(flags, *kept, data, control, begin)
      .Run(*device, world, sharing);
}

}  // namespace

absl::Status TrainOnData(const TrainSettings& flags,
                         const TrainingPrograms& programs,
                         const LaunchedWorld& launched) {
  ASYRA_ASSIGN_OR_RETURN(Data data, OpenData(flags, programs));
  if (flags.dry_run) {
    Describe(flags, programs, data);
    return DryRun(programs, data);
  }
  Communicator* world = launched.world.get();
  if (world != nullptr) {
    ASYRA_RETURN_IF_ERROR(CheckSameTokens(flags, data, *world));
  }
  Choice choice{programs, {}};
  if (flags.gate != kGateOff) {
    ASYRA_ASSIGN_OR_RETURN(choice.choices, StepChoices(programs));
  }
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Platform> platform, PlatformOf(flags));
  CatchStopSignals();
  int64_t ranks = programs.step.mesh.num_devices();
  if (world == nullptr || world->rank() == 0) Describe(flags, programs, data);
  if (world == nullptr) {
    ASYRA_RETURN_IF_ERROR(platform->CheckRanks(ranks));
    ASYRA_RETURN_IF_ERROR(RunLocalRanks(
        ranks, {.timeout_s = flags.timeout_s}, [&](Communicator& control) {
          return RunRank(flags, choice, data, *platform, control,
                         control.rank(), ranks);
        }));
    return flags.session->Save();
  }
  int64_t here = launched.ranks_on_host > 0 ? launched.ranks_on_host : ranks;
  ASYRA_RETURN_IF_ERROR(platform->CheckRanks(here));
  absl::Status status = WithinMemory([&] {
    return RunRank(flags, choice, data, *platform, *world, launched.local_rank,
                   here);
  });
  if (status.ok() && world->rank() == 0) status = flags.session->Save();
  return status;
}

}  // namespace asyra
