// A training loop over a folder of programs (asyra-opt --train), for one rank:
//
//   ASYRA_ASSIGN_OR_RETURN(auto trainer, Trainer::Load("llama.training"));
//   ASYRA_RETURN_IF_ERROR(
//       trainer->Prepare(device, &world, {.resume_from = "run"}));
//   ASYRA_ASSIGN_OR_RETURN(auto data, TokenBatches::Open(
//       files, trainer->programs().step, world.rank()));
//   ASYRA_RETURN_IF_ERROR(data->GoOnFrom(trainer->data_place()));
//   while (trainer->step() < 10000) {
//     ASYRA_ASSIGN_OR_RETURN(auto batch, data->Next());
//     ASYRA_RETURN_IF_ERROR(trainer->Step(batch, {.rate = 3e-4}));
//     if (trainer->step() % 1000 == 0) {
//       trainer->set_data_place(data->place());
//       ASYRA_RETURN_IF_ERROR(trainer->Save("run"));
//     }
//   }
//
// Every rank has one, on a thread or in a process of its own, and all call the
// same functions in the same order. It uses the public API alone (executor.h,
// state_set.h, train/checkpoint.h): what it does not do, a loop of one's own
// can.
//
// Steps are in flight: Step returns while the device works on it, and one step
// later its loss is known. Used by one thread.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/executor.h"
#include "executor/train/checkpoint_writer.h"
#include "executor/train/data_place.h"
#include "executor/train/training_folder.h"

namespace asyra {

// A step in which the loss or a gradient is NaN or infinite, or in which no
// label counts, changes no param and no state. What comes then (but for
// StepGuard::kLoss, where a gradient that is not finite in a step whose loss is
// has changed them: that ends a run):
enum class NotFinite : uint8_t {
  kStop,  // an error that names the step
  kSkip,  // the next step
};

struct TrainerOptions {
  // A directory of checkpoints: training goes on from the newest complete one,
  // of any mesh. Empty, or none in it: from first values.
  std::string resume_from;
  // First values of params without data in the folder, or of all of them.
  int64_t seed = 1;
  bool random_weights = false;
  NotFinite not_finite = NotFinite::kStop;
  // The error of a step that is not finite names the op, and training cannot go
  // on. Slow: every result is read once more.
  bool check_finite = false;
  // Records when each op of a step runs, for Profile.
  bool profile = false;
  // True: Evaluate is called, and needs memory.
  bool evaluates = true;
  // Ranks that take memory of the same device: threads on a cpu, processes of
  // a host.
  int64_t sharing = 1;
  CheckpointOptions checkpoints;
};

// Metrics of one step.
struct TrainMetrics {
  int64_t step = 0;  // from 1
  double loss = 0;   // mean over the labels of the step
  double norm = 0;   // of all gradients, before clipping
  // Divisor of the loss, such as the labels that count; where it is 0, loss and
  // norm are NaN and the step is skipped.
  double count = 0;
  double rate = 0;
  double seconds = 0;       // from the end of the step before it
  double tokens_per_s = 0;  // of all ranks together
  double mfu = 0;           // of the devices' dense peak; 0: not known
  bool skipped = false;     // it was not finite, and changed nothing
};

// Bytes of one rank that are known before anything runs; workspaces of kernels
// come in addition.
struct TrainingMemory {
  int64_t params = 0, states = 0, weights = 0;
  int64_t sums = 0;  // of gradients, over the batches of a step
  // Values of a step; the programs run in turn, in the same memory.
  int64_t step = 0, accumulate = 0, evaluate = 0;
  int64_t constants = 0;  // and inputs, of all programs
  int64_t arena() const { return std::max({step, accumulate, evaluate}); }
  int64_t total() const {
    return params + states + weights + sums + arena() + constants;
  }
};
// Errors: programs whose memory cannot be planned.
absl::StatusOr<TrainingMemory> PlanTrainingMemory(
    const TrainingPrograms& programs, bool evaluates);
// "1.50 GiB a device: params 0.50 GiB, optimizer states 1.00 GiB, ...".
std::string ToString(const TrainingMemory& memory);

class Trainer {
 public:
  // Errors: those of ReadTrainingFolder and of Create.
  static absl::StatusOr<std::unique_ptr<Trainer>> Load(
      const std::string& folder);
  // Errors: a step without inputs and outputs that a training has.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      TrainingPrograms programs);
  // Waits until this rank's part of a checkpoint that Save began is written, on
  // rank 0 until all of it is. No caller gets its error, which goes to stderr
  // as one line with rank and directory, unless it is that of another rank:
  // FinishSave returns it.
  virtual ~Trainer() = default;

  virtual const TrainingPrograms& programs() const = 0;

  // Reserves all memory, prepares all programs, and reads the newest checkpoint
  // or first values. Once. `device` and `world` outlive the trainer; `world` is
  // null where the mesh is one device.
  // Errors: ranks that are given different options, with both values (`profile`
  // and `sharing` may differ); memory, before anything else is done, with what
  // needs it; those of Executor::Prepare; those of Restore.
  virtual absl::Status Prepare(Device& device, Communicator* world,
                               const TrainerOptions& options = {}) = 0;

  // Returns the inputs of a batch: the data inputs of the step but the rate,
  // this rank's parts, in the order in which Step and Accumulate take them.
  virtual std::vector<Executor::NamedInput> inputs() const = 0;
  // The same of what evaluates, which may be sharded in another way.
  virtual std::vector<Executor::NamedInput> evaluate_inputs() const = 0;
  // Returns the tokens of one batch, all ranks together.
  virtual int64_t tokens_per_batch() const = 0;
  // Returns the batches that the folder was compiled for: as many less one
  // Accumulate, then Step. A folder with a program that accumulates takes any
  // other number as well.
  virtual int64_t batches_per_step() const = 0;

  // Adds the gradients of a batch to those of the next Step. The batch is
  // copied. Errors: the folder has no program for it; those of Step.
  virtual absl::Status Accumulate(absl::Span<const Tensor> batch) = 0;
  // One update, with the gradients of this batch and of those accumulated
  // before. The batch is copied. Waits for the step before.
  // Errors: a rate that is negative or not finite, with which nothing begins;
  // those of the executor; a step that was not finite (NotFinite), or in which
  // no label counts, which may be the one before this one. In the first 3 steps
  // after Prepare, and the first 3 evaluations, also ranks that hold the same
  // part of an input and are given different data, or are given different
  // rates: the error names step, input and ranks, and is final.
  struct StepOptions {
    double rate = 0;
  };
  virtual absl::Status Step(absl::Span<const Tensor> batch,
                            const StepOptions& options) = 0;
  // Waits for all steps. Errors as of Step.
  virtual absl::Status Finish() = 0;
  // Steps that were begun, also in the runs before.
  virtual int64_t step() const = 0;

  // Returns the metrics of the last step; waits for it.
  virtual absl::StatusOr<TrainMetrics> Metrics() = 0;
  // Returns the metrics of the steps that have become known since the last
  // call, at most the last 1000; does not wait. The last step is known after
  // Finish.
  virtual std::vector<TrainMetrics> TakeMetrics() = 0;
  virtual int64_t steps_skipped() const = 0;  // of this run
  virtual MemoryUse memory() const = 0;       // of all programs together

  // programs().step as it runs (Executor::program).
  virtual const Program& running_step() const = 0;
  // Returns the profile of the last step, which has ended
  // (ExecutorOptions::profile), by op of running_step(). Empty before, and
  // without TrainerOptions::profile.
  virtual std::vector<OpTime> Profile() const = 0;

  // The loss of a batch with the params as they are: the sum over its labels
  // and how many of them count; both are 0 where none does. Sums and counts of
  // several batches may be added up. Of a model whose loss is no quotient of
  // two sums (passes/train/attach_loss.h) the count is 1: the mean is then that
  // of the batches. Error also: it was prepared without.
  struct LossSum {
    double sum = 0, count = 0;
    double mean() const { return sum / count; }  // NaN where no label counts
  };
  virtual absl::StatusOr<LossSum> Evaluate(absl::Span<const Tensor> batch) = 0;

  // Makes the directory of Save, sees whether it can be written, and keeps
  // other runs out of it from here on (train/folder_lock.h): before the first
  // step, of a run that is to be saved. All ranks call it. Errors: those of
  // CheckpointWriter::Create.
  virtual absl::Status PrepareSave(const std::string& directory) = 0;
  // Rank 0: why nothing keeps them out; else empty.
  virtual std::string save_note() const = 0;
  // Begins a checkpoint of all that steps have done, and returns: it is written
  // behind the next steps. Waits for the one before, and returns its error. All
  // ranks call it, and FinishSave, after which it is complete; without that the
  // destructor completes it. All errors leave
  // the run as it is. Errors: those of CheckpointWriter; ranks that do not call
  // it, by name, after the timeout of the world.
  virtual absl::Status Save(const std::string& directory) = 0;
  // Waits until it is complete. Errors as of Save.
  virtual absl::Status FinishSave() = 0;
  virtual std::string last_checkpoint() const = 0;  // its folder, or empty
  // Goes on from a checkpoint's folder. Errors: those of Checkpoint.
  virtual absl::Status Restore(const std::string& folder) = 0;
  // Returns the folder that Prepare or Restore has gone on from, or empty.
  virtual const std::string& restored_from() const = 0;
  // Position of the run in its data: saved and restored with the rest. For
  // TokenBatches::GoOnFrom, and from TokenBatches::place.
  virtual const DataPlace& data_place() const = 0;
  virtual void set_data_place(DataPlace place) = 0;

  // Writes the float weights of the model, trained or not, to one safetensors
  // file, whole, under the names of the model (train/export_params.h); all
  // ranks call it. Errors: the system's.
  virtual absl::Status Export(const std::string& path) = 0;

  // Returns all params and states of this rank; for what the trainer does not
  // do.
  virtual StateSet& states() = 0;
};

}  // namespace asyra
