// Compiles the training of a small GPT for two ranks, and trains it on the
// bytes of a text, each rank a thread of this process. A second run goes on
// where the first one has ended.
//
// Usage: train_gpt TEXT STEPS CHECKPOINTS
#include <cstdio>
#include <cstdlib>

#include "executor/comm/thread_world.h"
#include "executor/cpu/cpu_device.h"
#include "executor/train/token_batches.h"
#include "executor/trainer.h"
#include "ir/support/status.h"
#include "models/models.h"
#include "passes/training.h"
#include "simulator/cost/load_machine.h"

namespace {

// Step, evaluation and first values, as asyra-opt --train compiles them.
absl::StatusOr<asyra::TrainingPrograms> CompileGpt() {
  ASYRA_ASSIGN_OR_RETURN(
      asyra::Program model,
      asyra::BuiltinModel("gpt3-tiny", {{"batch", 8}, {"seq", 64}}));
  ASYRA_ASSIGN_OR_RETURN(asyra::Mesh mesh, asyra::Mesh::Create({{"dp", 2}}));
  ASYRA_ASSIGN_OR_RETURN(asyra::Machine machine, asyra::LoadMachine("h200x8"));
  asyra::CompileOptions options;
  options.train = asyra::TrainOptions();
  options.schedule.search_steps = 20;
  ASYRA_ASSIGN_OR_RETURN(asyra::RaisedProgram raised,
                         asyra::Raise(std::move(model), options));
  ASYRA_ASSIGN_OR_RETURN(
      asyra::CompiledTraining training,
      asyra::CompileTraining(raised, mesh, machine, options));
  return asyra::ProgramsOf(training, options, "gpt3-tiny", "h200x8");
}

struct Run {
  asyra::TrainingPrograms programs;
  std::string checkpoints;
  std::shared_ptr<const asyra::TokenFiles> text;
  int64_t steps;
};

absl::Status TrainOnRank(const Run& run, asyra::Device& device,
                         asyra::Communicator& world) {
  ASYRA_ASSIGN_OR_RETURN(auto trainer, asyra::Trainer::Create(run.programs));
  // From the newest checkpoint of any mesh, or from first values.
  ASYRA_RETURN_IF_ERROR(trainer->Prepare(
      device, &world, {.resume_from = run.checkpoints, .evaluates = false}));
  // This rank's part of each batch follows from the program's types.
  ASYRA_ASSIGN_OR_RETURN(auto batches, asyra::TokenBatches::Open(
                                           run.text, trainer->programs().step,
                                           world.rank(), {.shuffle = true}));
  ASYRA_RETURN_IF_ERROR(batches->GoOnFrom(trainer->data_place()));
  while (trainer->step() < run.steps) {
    ASYRA_ASSIGN_OR_RETURN(std::vector<asyra::Tensor> batch, batches->Next());
    ASYRA_RETURN_IF_ERROR(trainer->Step(batch, {.rate = 0.003}));
    if (trainer->step() % 20 != 0) continue;
    ASYRA_ASSIGN_OR_RETURN(asyra::TrainMetrics now, trainer->Metrics());
    if (world.rank() == 0) {
      std::printf("step %ld loss %.3f\n", static_cast<long>(now.step),
                  now.loss);
    }
    trainer->set_data_place(batches->place());
    ASYRA_RETURN_IF_ERROR(trainer->Save(run.checkpoints));
  }
  return trainer->FinishSave();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  auto text = asyra::TokenFiles::Open({argv[1]});
  auto programs = CompileGpt();
  absl::Status status = text.ok() ? programs.status() : text.status();
  if (status.ok()) {
    Run run{*std::move(programs), argv[3],
            std::make_shared<const asyra::TokenFiles>(*std::move(text)),
            std::atoll(argv[2])};
    auto device = asyra::CreateCpuDevice({.threads_per_stream = 1});
    status = asyra::RunLocalRanks(run.programs.step.mesh.num_devices(), {},
                                  [&](asyra::Communicator& world) {
                                    return TrainOnRank(run, *device, world);
                                  });
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
