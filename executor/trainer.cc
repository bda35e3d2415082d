#include "executor/trainer.h"

#include <chrono>
#include <cmath>
#include <deque>

#include "absl/algorithm/container.h"
#include "executor/comm/choices.h"
#include "executor/train/batch_agreement.h"
#include "executor/train/export_params.h"
#include "executor/train/first_values.h"
#include "executor/train/step_inputs.h"
#include "executor/train/token_batches.h"
#include "executor/train/trainer_choices.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "ir/training_names.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kKeptMetrics = 1000;
// Steps, and evaluations, of a run whose batches are compared between ranks.
constexpr int64_t kStepsCompared = 3;
// Names in CheckpointInfo::extra.
constexpr char kDataPosition[] = "data_position", kDataOrder[] = "data_order";

class RankTrainer : public Trainer {
 public:
  explicit RankTrainer(TrainingPrograms programs)
      : programs_(std::move(programs)) {}

  // A checkpoint that was begun is worth its time, also after an error: it has
  // values of its own.
  ~RankTrainer() override {
    absl::Status status =
        writer_ == nullptr ? absl::OkStatus() : writer_->FinishAlone();
    // A rank that has failed says so itself.
    if (status.ok() || absl::IsAborted(status)) return;
    fmt::print(stderr,
               "asyra: rank {}: a checkpoint in {} is not complete: {}\n",
               rank(), directory_, MessageOf(status));
  }

  absl::Status Check() {
    const Program& step = programs_.step;
    ASYRA_RETURN_IF_ERROR(CheckTraining(programs_));
    sums_ = GradientSumsOf(step);
    scales_loss_ = HasInput(step, kLossScaleLog2);
    // A model need not be trained on tokens.
    absl::StatusOr<const Input*> tokens = TokensOf(step);
    if (tokens.ok()) {
      tokens_per_batch_ = step.type((*tokens)->value).num_elements();
    }
    return absl::OkStatus();
  }

  const TrainingPrograms& programs() const override { return programs_; }

  absl::Status Prepare(Device& device, Communicator* world,
                       const TrainerOptions& options) override {
    if (states_ != nullptr) return Invalid("Prepare is called twice");
    device_ = &device;
    world_ = world;
    options_ = options;
    return Reported(PrepareAll());
  }

  std::vector<Executor::NamedInput> inputs() const override {
    return BatchInputsOf(programs_.step);
  }
  std::vector<Executor::NamedInput> evaluate_inputs() const override {
    return BatchInputsOf(programs_.evaluate);
  }
  int64_t tokens_per_batch() const override { return tokens_per_batch_; }
  int64_t batches_per_step() const override { return programs_.info.batches; }

  absl::Status Accumulate(absl::Span<const Tensor> batch) override {
    if (accumulate_ == nullptr) {
      return Invalid("the folder has no program accumulate");
    }
    ASYRA_RETURN_IF_ERROR(Usable());
    ASYRA_RETURN_IF_ERROR(CompareBatch(*programs_.accumulate, batch));
    ASYRA_RETURN_IF_ERROR(BeginBatch());
    ASYRA_RETURN_IF_ERROR(Failed(accumulate_->Enqueue(batch).status()));
    ++accumulated_;
    return absl::OkStatus();
  }

  absl::Status Step(absl::Span<const Tensor> batch,
                    const StepOptions& options) override {
    ASYRA_RETURN_IF_ERROR(Usable());
    ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> inputs,
                           StepInputs(programs_.step, batch, options.rate));
    ASYRA_RETURN_IF_ERROR(CompareBatch(programs_.step, inputs));
    ASYRA_RETURN_IF_ERROR(BeginBatch());
    absl::StatusOr<int64_t> number = step_executor_->Enqueue(inputs);
    ASYRA_RETURN_IF_ERROR(Failed(number.status()));
    ++step_;
    ++steps_of_run_;
    int64_t batches = std::exchange(accumulated_, 0) + 1;
    in_flight_.push_back({*number, step_, batches, options.rate, follows_});
    // One step is under way while the host reads what the one before gave.
    if (in_flight_.size() < Executor::kStepsInFlight) return absl::OkStatus();
    return TakeOldest();
  }

  absl::Status Finish() override {
    ASYRA_RETURN_IF_ERROR(failed_);
    while (!in_flight_.empty()) ASYRA_RETURN_IF_ERROR(TakeOldest());
    return absl::OkStatus();
  }

  int64_t step() const override { return step_; }

  absl::StatusOr<TrainMetrics> Metrics() override {
    ASYRA_RETURN_IF_ERROR(Finish());
    if (!last_.has_value()) return Invalid("no step has run");
    return *last_;
  }

  std::vector<TrainMetrics> TakeMetrics() override {
    return std::exchange(metrics_, {});
  }
  int64_t steps_skipped() const override { return skipped_; }

  MemoryUse memory() const override {
    MemoryUse use;
    for (const Executor* executor :
         {step_executor_.get(), accumulate_.get(), evaluate_.get()}) {
      if (executor == nullptr) continue;
      MemoryUse part = executor->memory();
      use.arena_bytes += part.arena_bytes;
      use.resident_bytes += part.resident_bytes;
      use.workspace_bytes += part.workspace_bytes;
    }
    if (states_ != nullptr) use.shared_bytes = states_->bytes();
    return use;
  }

  const Program& running_step() const override {
    return step_executor_->program();
  }

  std::vector<OpTime> Profile() const override {
    if (!last_.has_value() || !in_flight_.empty()) return {};
    return step_executor_->Profile();
  }

  absl::StatusOr<LossSum> Evaluate(absl::Span<const Tensor> batch) override {
    if (evaluate_ == nullptr) {
      return Invalid(
          "Evaluate: the trainer was prepared without (evaluates = false)");
    }
    ASYRA_RETURN_IF_ERROR(Finish());
    ASYRA_RETURN_IF_ERROR(Usable());
    if (evaluations_++ < kStepsCompared) {
      ASYRA_RETURN_IF_ERROR(Compare(
          programs_.evaluate, batch,
          fmt::format("evaluation {} after step {}", evaluations_, step_)));
    }
    absl::StatusOr<int64_t> number = evaluate_->Enqueue(batch);
    ASYRA_RETURN_IF_ERROR(Failed(number.status()));
    absl::StatusOr<std::vector<double>> given = evaluate_->Await(*number);
    ASYRA_RETURN_IF_ERROR(Failed(given.status()));
    LossSum loss;
    loss.count = ScalarOf(*evaluate_, *given, kLossCount, 1);
    loss.sum = ScalarOf(*evaluate_, *given, kLoss, NAN) * loss.count;
    // Without labels the mean is 0 / 0.
    if (loss.count == 0) loss.sum = 0;
    last_end_ = Clock::now();
    return loss;
  }

  absl::Status PrepareSave(const std::string& directory) override {
    ASYRA_RETURN_IF_ERROR(Usable());
    return OpenDirectory("PrepareSave", directory);
  }
  std::string save_note() const override {
    return writer_ == nullptr ? "" : writer_->note();
  }

  absl::Status Save(const std::string& directory) override {
    ASYRA_RETURN_IF_ERROR(Finish());
    ASYRA_RETURN_IF_ERROR(Usable());
    if (accumulated_ > 0) {
      return Invalid("gradients of {} batches wait for a step", accumulated_);
    }
    ASYRA_RETURN_IF_ERROR(OpenDirectory("Save", directory));
    CheckpointInfo info{.step = step_,
                        .program_hash = programs_.info.program_hash};
    info.extra[kDataPosition] = std::to_string(data_.position);
    info.extra[kDataOrder] = data_.order;
    absl::Status status =
        writer_->Save(info, [this](const CheckpointValue& value) {
          return states_->Get(value.name);
        });
    last_end_ = Clock::now();
    return CalledByAll("Save", status);
  }

  absl::Status FinishSave() override {
    return writer_ == nullptr ? absl::OkStatus()
                              : CalledByAll("FinishSave", writer_->Finish());
  }
  std::string last_checkpoint() const override {
    return writer_ == nullptr ? "" : writer_->last_complete();
  }

  absl::Status Restore(const std::string& folder) override {
    if (states_ == nullptr) return Invalid("Prepare was not called");
    ASYRA_RETURN_IF_ERROR(Finish());
    return Reported(Read(folder));
  }
  const std::string& restored_from() const override { return restored_from_; }
  const DataPlace& data_place() const override { return data_; }
  void set_data_place(DataPlace place) override { data_ = std::move(place); }

  absl::Status Export(const std::string& path) override {
    ASYRA_RETURN_IF_ERROR(Finish());
    ASYRA_RETURN_IF_ERROR(Usable());
    return ExportModel(path, programs_.step, step_, values_, world_, *states_);
  }

  StateSet& states() override { return *states_; }

 private:
  // The writer of a directory, for a function that all ranks call.
  absl::Status OpenDirectory(std::string_view call,
                             const std::string& directory) {
    if (writer_ != nullptr && directory == directory_) return absl::OkStatus();
    ASYRA_RETURN_IF_ERROR(FinishSave());
    writer_ = nullptr;  // two paths of one folder have one lock
    auto writer = CheckpointWriter::Create(
        directory, values_, programs_.step.mesh, world_, options_.checkpoints);
    ASYRA_RETURN_IF_ERROR(CalledByAll(call, writer.status()));
    writer_ = *std::move(writer);
    directory_ = directory;
    return absl::OkStatus();
  }

  struct InFlight {
    int64_t number;  // of the executor
    int64_t step;
    int64_t batches;
    double rate;
    bool follows;  // another was under way when its first batch was enqueued
  };

  int64_t rank() const { return world_ == nullptr ? 0 : world_->rank(); }

  // Says which call has waited in vain for ranks that did not make it.
  absl::Status CalledByAll(std::string_view call,
                           const absl::Status& status) const {
    if (!absl::IsDeadlineExceeded(status)) return status;
    return absl::DeadlineExceededError(
        fmt::format("{} after step {}, which all ranks call: {}", call, step_,
                    MessageOf(status)));
  }

  static double ScalarOf(const Executor& executor,
                         absl::Span<const double> scalars,
                         std::string_view name, double otherwise) {
    std::vector<std::string_view> names = executor.scalars();
    auto found = absl::c_find(names, name);
    return found == names.end() ? otherwise : scalars[found - names.begin()];
  }

  absl::Status PrepareAll() {
    if (world_ != nullptr) {
      ASYRA_RETURN_IF_ERROR(
          CheckSameChoices(*world_, ChoicesOf(programs_, options_)));
    }
    ASYRA_RETURN_IF_ERROR(CheckMemory());
    ASYRA_ASSIGN_OR_RETURN(states_, StateSet::Create(*device_));
    ASYRA_RETURN_IF_ERROR(states_->Join(programs_.step));
    values_ = CheckpointValuesOf(programs_.step);
    std::string newest;
    if (!options_.resume_from.empty()) {
      ASYRA_ASSIGN_OR_RETURN(newest,
                             NewestCheckpoint(options_.resume_from, world_));
    }
    ASYRA_RETURN_IF_ERROR(
        newest.empty() ? SetFirstValues(programs_, options_.random_weights,
                                        options_.seed, world_, *states_)
                       : Read(newest));
    // Not before: first values need memory of their own.
    ASYRA_RETURN_IF_ERROR(states_->ReserveArena(arena_bytes_));
    ASYRA_ASSIGN_OR_RETURN(step_executor_,
                           Load(programs_.step, options_.profile));
    if (programs_.accumulate.has_value()) {
      ASYRA_ASSIGN_OR_RETURN(accumulate_, Load(*programs_.accumulate));
    }
    if (options_.evaluates) {
      ASYRA_ASSIGN_OR_RETURN(evaluate_, Load(programs_.evaluate));
    }
    return absl::OkStatus();
  }

  absl::Status CheckMemory() {
    ASYRA_ASSIGN_OR_RETURN(TrainingMemory needs,
                           PlanTrainingMemory(programs_, options_.evaluates));
    arena_bytes_ = needs.arena();
    int64_t left = device_->BytesLeft();
    if (needs.total() <= left / options_.sharing) return absl::OkStatus();
    return absl::ResourceExhaustedError(fmt::format(
        "the training needs {}; {} are left on the {}, for {} {}",
        ToString(needs), BytesText(left), device_->name(), options_.sharing,
        options_.sharing == 1 ? "rank" : "ranks"));
  }

  absl::StatusOr<std::unique_ptr<Executor>> Load(const Program& program,
                                                 bool profile = false) {
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                           Executor::Load(program));
    ExecutorOptions options{.check_finite = options_.check_finite,
                            .profile = profile,
                            .params_are_set_later = true};
    options.states = states_;
    ASYRA_RETURN_IF_ERROR(executor->Prepare(
        *device_, world_, programs_.step.weights.get(), options));
    return executor;
  }

  absl::Status Read(const std::string& folder) {
    ASYRA_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(folder));
    ASYRA_RETURN_IF_ERROR(
        checkpoint.CheckFits(values_, programs_.info.program_hash));
    int64_t ranks = world_ == nullptr ? 1 : world_->size();
    ASYRA_RETURN_IF_ERROR(checkpoint.CheckData(rank(), ranks));
    for (const CheckpointValue& value : values_) {
      ASYRA_ASSIGN_OR_RETURN(
          Tensor local, checkpoint.Read(value, programs_.step.mesh, rank()));
      ASYRA_RETURN_IF_ERROR(states_->Set(value.name, local));
    }
    step_ = checkpoint.info().step;
    accumulated_ = 0;
    data_ = PlaceOf(checkpoint.info());
    restored_from_ = folder;
    return absl::OkStatus();
  }

  // One of before there was an order in checkpoints has none.
  static DataPlace PlaceOf(const CheckpointInfo& info) {
    auto text = [&](const char* name) {
      auto found = info.extra.find(name);
      return found == info.extra.end() ? "" : found->second;
    };
    return {std::strtoll(text(kDataPosition).c_str(), nullptr, 10),
            text(kDataOrder)};
  }

  absl::Status Usable() const {
    ASYRA_RETURN_IF_ERROR(failed_);
    if (step_executor_ == nullptr) return Invalid("Prepare was not called");
    return absl::OkStatus();
  }

  // The next batch of a step.
  absl::Status CompareBatch(const Program& program,
                            absl::Span<const Tensor> inputs) {
    if (steps_of_run_ >= kStepsCompared) return absl::OkStatus();
    std::string place = fmt::format("step {}", step_ + 1);
    if (accumulate_ != nullptr) {
      place += fmt::format(", batch {} ({})", accumulated_ + 1, program.name);
    }
    return Compare(program, inputs, place);
  }

  absl::Status Compare(const Program& program, absl::Span<const Tensor> inputs,
                       const std::string& place) {
    if (world_ == nullptr) return absl::OkStatus();
    return Failed(CheckBatchAgreement(*world_, program, inputs, place));
  }

  // The first batch of a step finds the sums of the step before.
  absl::Status BeginBatch() {
    if (accumulated_ > 0) return absl::OkStatus();
    follows_ = !in_flight_.empty();
    if (!follows_) last_end_ = Clock::now();
    return sums_.empty() ? absl::OkStatus() : Failed(states_->Clear(sums_));
  }

  // An error of an executor is final.
  absl::Status Failed(const absl::Status& status) {
    if (!status.ok() && failed_.ok()) failed_ = status;
    return status;
  }

  // The other ranks would wait for this one.
  absl::Status Reported(const absl::Status& status) {
    if (!status.ok() && world_ != nullptr) world_->Abort(status);
    return Failed(status);
  }

  absl::Status TakeOldest() {
    InFlight oldest = in_flight_.front();
    in_flight_.pop_front();
    absl::StatusOr<std::vector<double>> scalars =
        step_executor_->Await(oldest.number);
    if (!scalars.ok()) {
      return Failed(
          Annotate(scalars.status(), fmt::format("step {}", oldest.step)));
    }
    Clock::time_point now = Clock::now();
    std::chrono::duration<double> seconds = now - last_end_;
    if (oldest.follows) {
      absl::StatusOr<double> seen = step_executor_->SecondsOf(oldest.number);
      if (!seen.ok()) return Failed(seen.status());
      seconds = std::chrono::duration<double>(*seen);
    }
    TrainMetrics metrics{
        .step = oldest.step,
        .loss = ScalarOf(*step_executor_, *scalars, kLoss, NAN),
        .norm = ScalarOf(*step_executor_, *scalars, kNorm, NAN),
        .count = ScalarOf(*step_executor_, *scalars, kLossCount, 1),
        .rate = oldest.rate,
        .seconds = seconds.count()};
    last_end_ = now;
    AddSpeed(oldest.batches, &metrics);
    metrics.skipped =
        !std::isfinite(guarded_by_loss() ? metrics.loss : metrics.norm);
    skipped_ += metrics.skipped ? 1 : 0;
    // A caller that never asks does not need them.
    if (metrics_.size() == kKeptMetrics) metrics_.erase(metrics_.begin());
    metrics_.push_back(metrics);
    last_ = metrics;
    return CheckFinite(metrics);
  }

  void AddSpeed(int64_t batches, TrainMetrics* metrics) const {
    if (!(metrics->seconds > 0)) return;
    metrics->tokens_per_s =
        static_cast<double>(batches * tokens_per_batch_) / metrics->seconds;
    // Peaks are those of GPUs.
    if (device_->name() == "cpu") return;
    metrics->mfu = static_cast<double>(batches) * programs_.info.peak_us /
                   (1e6 * metrics->seconds);
  }

  bool guarded_by_loss() const {
    return programs_.info.guard == StepGuard::kLoss;
  }

  absl::Status CheckFinite(const TrainMetrics& metrics) {
    if (!metrics.skipped && !std::isfinite(metrics.norm)) {
      return Failed(absl::OutOfRangeError(fmt::format(
          "step {}: the loss is {}, the norm of the gradients {}; the step, "
          "which was made without clipping, has updated params with them: go "
          "on from a checkpoint",
          metrics.step, metrics.loss, metrics.norm)));
    }
    bool finite = std::isfinite(metrics.loss) &&
                  (std::isfinite(metrics.norm) || scales_loss_);
    if (finite || options_.not_finite == NotFinite::kSkip) {
      return absl::OkStatus();
    }
    while (!in_flight_.empty()) {
      InFlight later = in_flight_.front();
      in_flight_.pop_front();
      ASYRA_RETURN_IF_ERROR(
          Failed(step_executor_->Await(later.number).status()));
    }
    if (metrics.count == 0) {
      return absl::OutOfRangeError(
          fmt::format("step {}: no label counts, there is no loss; the step "
                      "changed nothing",
                      metrics.step));
    }
    return absl::OutOfRangeError(fmt::format(
        "step {}: the loss is {}, the norm of the gradients {}; the step "
        "changed nothing",
        metrics.step, metrics.loss, metrics.norm));
  }

  TrainingPrograms programs_;
  bool scales_loss_ = false;
  int64_t tokens_per_batch_ = 0;
  Device* device_ = nullptr;
  Communicator* world_ = nullptr;
  TrainerOptions options_;
  absl::Status failed_;
  std::shared_ptr<StateSet> states_;
  std::vector<CheckpointValue> values_;
  std::unique_ptr<Executor> step_executor_, accumulate_, evaluate_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::string directory_, restored_from_;
  std::deque<InFlight> in_flight_;
  std::vector<TrainMetrics> metrics_;
  std::optional<TrainMetrics> last_;
  Clock::time_point last_end_;
  bool follows_ = false;  // the step that is being enqueued, as InFlight has it
  int64_t step_ = 0, skipped_ = 0;
  int64_t steps_of_run_ = 0, evaluations_ = 0;
  DataPlace data_;
  int64_t accumulated_ = 0;        // batches since the last step
  std::vector<std::string> sums_;  // states that are cleared before a step
  int64_t arena_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(
    TrainingPrograms programs) {
  auto trainer = std::make_unique<RankTrainer>(std::move(programs));
  ASYRA_RETURN_IF_ERROR(trainer->Check());
  return trainer;
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Load(
    const std::string& folder) {
  ASYRA_ASSIGN_OR_RETURN(TrainingPrograms programs, ReadTrainingFolder(folder));
  auto trainer = Create(std::move(programs));
  if (!trainer.ok()) return Annotate(trainer.status(), folder);
  return trainer;
}

}  // namespace asyra
