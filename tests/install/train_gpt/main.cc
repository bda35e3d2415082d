// Trains a folder that asyra-opt --train has written on the bytes of a text,
// each rank a thread of this process. A second run goes on where the first one
// has ended.
//
// Usage: train_gpt TRAINING TEXT STEPS CHECKPOINTS
#include <cstdio>
#include <cstdlib>

#include "executor/comm/thread_world.h"
#include "executor/cpu/cpu_device.h"
#include "executor/train/token_batches.h"
#include "executor/trainer.h"
#include "ir/support/status.h"

namespace {

struct Run {
  std::string folder, checkpoints;
  std::shared_ptr<const asyra::TokenFiles> text;
  int64_t steps;
};

absl::Status TrainOnRank(const Run& run, asyra::Device& device,
                         asyra::Communicator& world) {
  ASYRA_ASSIGN_OR_RETURN(auto trainer, asyra::Trainer::Load(run.folder));
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
  if (argc != 5) return 2;
  auto text = asyra::TokenFiles::Open({argv[2]});
  auto folder = asyra::ReadTrainingFolder(argv[1]);
  absl::Status status = text.ok() ? folder.status() : text.status();
  if (status.ok()) {
    Run run{argv[1], argv[4],
            std::make_shared<const asyra::TokenFiles>(*std::move(text)),
            std::atoll(argv[3])};
    auto device = asyra::CreateCpuDevice({.threads_per_stream = 1});
    status = asyra::RunLocalRanks(folder->step.mesh.num_devices(), {},
                                  [&](asyra::Communicator& world) {
                                    return TrainOnRank(run, *device, world);
                                  });
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
