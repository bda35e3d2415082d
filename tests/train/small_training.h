// Trainings of a small model for the tests of this folder.
#pragma once

#include <string>

#include "executor/comm/thread_world.h"
#include "executor/cpu/cpu_device.h"
#include "executor/train/token_batches.h"
#include "executor/trainer.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/weights/weight_store.h"
#include "models/models.h"
#include "models/rotary_tables.h"
#include "tests/executor/train/checkpoint_case.h"
#include "tools/train/compile_training.h"

namespace asyra {

// One layer of a GPT on `mesh`, "" or as "dp=2,tp=2", in f64: meshes agree to
// the last digits.
inline CompileFlags SmallTrainingFlags(const std::string& mesh,
                                       const TrainOptions& options = {}) {
  CompileFlags flags;
  flags.model = "gpt3-tiny";
  flags.dims = {"layers=1", "batch=4", "seq=16", "vocabulary=128"};
  flags.dtype = "f64";
  if (!mesh.empty()) flags.mesh = mesh;
  flags.tiles = 1;
  flags.scheduler = "serial";
  flags.search_steps = 1;
  flags.train = options;
  return flags;
}

inline TrainingPrograms ProgramsOfFlags(const CompileFlags& flags) {
  RaisedModel model = ASYRA_VALUE(LoadRaised(flags));
  AddRotaryTables(RotaryBase(flags.model), &model.raised.program);
  CompiledTraining training = ASYRA_VALUE(CompileTraining(flags, model));
  return ASYRA_VALUE(ProgramsOf(training, flags));
}

inline TrainingPrograms SmallTraining(const std::string& mesh,
                                      const TrainOptions& options = {}) {
  return ProgramsOfFlags(SmallTrainingFlags(mesh, options));
}

inline std::shared_ptr<const TokenFiles> SmallText() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "the quick brown fox jumps over it. ";
  ScratchFolder folder("small_training");
  std::string path = folder.path() + "/text";
  ASYRA_CHECK_OK(WriteFileAtomically(path, {text}));
  return std::make_shared<const TokenFiles>(
      ASYRA_VALUE(TokenFiles::Open({path})));
}

// Runs body on each rank with a trainer that is prepared.
using TrainerBody =
    std::function<absl::Status(Trainer& trainer, TokenBatches& data)>;
inline absl::Status OnTrainers(const TrainingPrograms& programs,
                               const TrainerOptions& options,
                               const TrainerBody& body) {
  auto device = CreateCpuDevice({.threads_per_stream = 1});
  auto text = SmallText();
  return RunLocalRanks(
      programs.step.mesh.num_devices(), {},
      [&](Communicator& world) -> absl::Status {
        ASYRA_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(programs));
        ASYRA_RETURN_IF_ERROR(trainer->Prepare(*device, &world, options));
        ASYRA_ASSIGN_OR_RETURN(
            auto data, TokenBatches::Open(text, programs.step, world.rank(),
                                          {.shuffle = true}));
        ASYRA_RETURN_IF_ERROR(data->GoOnFrom(trainer->data_place()));
        return body(*trainer, *data);
      });
}

inline absl::Status StepsUpTo(int64_t last, Trainer& trainer,
                              TokenBatches& data) {
  while (trainer.step() < last) {
    ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, data.Next());
    double rate = 0.01 / static_cast<double>(trainer.step() + 1);
    ASYRA_RETURN_IF_ERROR(trainer.Step(batch, {.rate = rate}));
  }
  return trainer.Finish();
}

inline Checkpoint Newest(const std::string& directory) {
  return ASYRA_VALUE(
      Checkpoint::Open(ASYRA_VALUE(NewestCheckpoint(directory, nullptr))));
}

inline void ExpectSameTensors(const WeightStore& a, const WeightStore& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    const Tensor* other = b.Find(name);
    ASSERT_NE(other, nullptr) << name;
    EXPECT_TRUE(SameBytes(tensor, *other)) << name;
  }
}

}  // namespace asyra
