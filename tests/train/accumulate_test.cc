// Steps whose gradients are those of several batches.
#include <cmath>
#include <map>
#include <mutex>

#include "gmock/gmock.h"
#include "ir/training_names.h"
#include "tests/train/small_training.h"

namespace asyra {
namespace {

using testing::HasSubstr;

const TrainingPrograms& ProgramsOfBatches(const std::string& mesh) {
  static auto* all = new std::map<std::string, TrainingPrograms>;
  auto found = all->find(mesh);
  if (found == all->end()) {
    found =
        all->emplace(mesh, SmallTraining(mesh, TrainOptions{.accumulate = 3}))
            .first;
  }
  return found->second;
}

// Steps of as many batches as `counts` says; their losses, those of their
// batches by Evaluate before, and the param that is left.
struct OfBatches {
  std::vector<double> losses, means;
  Tensor param;
};
OfBatches TrainBatches(const std::string& mesh,
                       const std::vector<int>& counts) {
  OfBatches all;
  std::mutex mutex;  // all ranks know all losses
  ASYRA_CHECK_OK(OnTrainers(
      ProgramsOfBatches(mesh), {},
      [&](Trainer& trainer, TokenBatches& data) -> absl::Status {
        EXPECT_EQ(trainer.batches_per_step(), 3);
        OfBatches own;
        for (int count : counts) {
          double sum = 0;
          for (int i = 0; i < count; ++i) {
            ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, data.Next());
            sum += ASYRA_VALUE(trainer.Evaluate(batch)).mean();
            ASYRA_RETURN_IF_ERROR(i + 1 < count
                                      ? trainer.Accumulate(batch)
                                      : trainer.Step(batch, {.rate = 0.01}));
          }
          TrainMetrics metrics = ASYRA_VALUE(trainer.Metrics());
          own.losses.push_back(metrics.loss);
          own.means.push_back(sum / count);
        }
        EXPECT_EQ(trainer.step(), static_cast<int64_t>(counts.size()));
        own.param = ASYRA_VALUE(trainer.states().Get("norm.weight"));
        std::lock_guard lock(mutex);
        all = std::move(own);
        return absl::OkStatus();
      }));
  return all;
}

TEST(Accumulate, TheLossIsTheMeanOfAllBatches) {
  // Any number of them makes a step.
  std::vector<int> counts = {3, 3, 1, 4, 2};
  OfBatches alone = TrainBatches("", counts);
  for (size_t i = 0; i < counts.size(); ++i) {
    EXPECT_NEAR(alone.losses[i], alone.means[i], 1e-12) << i;
  }
  EXPECT_LT(alone.losses.back(), alone.losses.front());
}

TEST(Accumulate, IsTheSameOnAMesh) {
  std::vector<int> counts = {3, 1, 2};
  OfBatches alone = TrainBatches("", counts);
  OfBatches on_mesh = TrainBatches("dp=2", counts);
  for (size_t i = 0; i < counts.size(); ++i) {
    EXPECT_NEAR(alone.losses[i], on_mesh.losses[i], 1e-12) << i;
  }
  for (int64_t i = 0; i < alone.param.num_elements(); ++i) {
    EXPECT_NEAR(alone.param.Get(i), on_mesh.param.Get(i), 1e-10) << i;
  }
}

TEST(Accumulate, SumsArePlannedAndReserved) {
  const TrainingPrograms& programs = ProgramsOfBatches("");
  ASSERT_TRUE(programs.accumulate.has_value());
  TrainingMemory memory = ASYRA_VALUE(PlanTrainingMemory(programs, true));
  // Of each param in its type, the loss and the count of its terms.
  EXPECT_EQ(memory.sums, memory.params + 2 * 8);
  EXPECT_GT(memory.accumulate, 0);
  EXPECT_THAT(ToString(memory), HasSubstr("sums of gradients"));
  auto device = CreateCpuDevice();
  auto trainer = ASYRA_VALUE(Trainer::Create(programs));
  ASYRA_CHECK_OK(trainer->Prepare(*device, nullptr));
  MemoryUse use = trainer->memory();
  EXPECT_NEAR(use.total() - use.workspace_bytes, memory.total(),
              0.01 * memory.total());
}

TEST(Accumulate, WhatIsAddedUpIsNoPartOfACheckpoint) {
  ScratchFolder folder("accumulate"), alone("alone");
  auto to = [&](const TrainingPrograms& programs, int64_t last,
                const std::string& directory) {
    return OnTrainers(
        programs, {.resume_from = directory},
        [&](Trainer& trainer, TokenBatches& data) -> absl::Status {
          while (trainer.step() < last) {
            for (int i = 0; i < 2; ++i) {
              ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, data.Next());
              ASYRA_RETURN_IF_ERROR(trainer.Accumulate(batch));
              EXPECT_EQ(MessageOf(trainer.Save(directory)),
                        fmt::format("gradients of {} batches wait for a step",
                                    i + 1));
            }
            ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, data.Next());
            ASYRA_RETURN_IF_ERROR(trainer.Step(batch, {.rate = 0.01}));
          }
          trainer.set_data_place(data.place());
          ASYRA_RETURN_IF_ERROR(trainer.Save(directory));
          return trainer.FinishSave();
        });
  };
  const TrainingPrograms& programs = ProgramsOfBatches("dp=2");
  ASYRA_CHECK_OK(to(programs, 4, alone.path()));
  ASYRA_CHECK_OK(to(programs, 1, folder.path()));
  ASYRA_CHECK_OK(to(programs, 4, folder.path()));
  WeightStore tensors = Newest(alone.path()).tensors();
  ExpectSameTensors(tensors, Newest(folder.path()).tensors());
  for (const auto& [name, tensor] : tensors) EXPECT_FALSE(IsAccumulated(name));
  // A step of one batch goes on from it.
  ASYRA_CHECK_OK(OnTrainers(SmallTraining("dp=2"),
                            {.resume_from = folder.path()},
                            [](Trainer& trainer, TokenBatches& data) {
                              EXPECT_EQ(trainer.step(), 4);
                              EXPECT_EQ(data.place().position, 4 * 3 * 4);
                              return StepsUpTo(6, trainer, data);
                            }));
}

// The next step begins with zeros, not with the sums of this one.
TEST(Accumulate, ABatchThatIsNotFiniteIsForgotten) {
  ASYRA_CHECK_OK(OnTrainers(
      ProgramsOfBatches("dp=2"), {.not_finite = NotFinite::kSkip},
      [&](Trainer& trainer, TokenBatches& data) -> absl::Status {
        ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, data.Next());
        Tensor kept = ASYRA_VALUE(trainer.states().Get("norm.weight"));
        Tensor bad(kept.dtype(), kept.shape());
        bad.Set(0, HUGE_VAL);
        ASYRA_RETURN_IF_ERROR(trainer.states().Set("norm.weight", bad));
        ASYRA_RETURN_IF_ERROR(trainer.Accumulate(batch));
        ASYRA_RETURN_IF_ERROR(trainer.states().Set("norm.weight", kept));
        ASYRA_RETURN_IF_ERROR(trainer.Step(batch, {.rate = 0.01}));
        EXPECT_TRUE(ASYRA_VALUE(trainer.Metrics()).skipped);
        EXPECT_TRUE(
            SameBytes(kept, ASYRA_VALUE(trainer.states().Get("norm.weight"))));
        ASYRA_RETURN_IF_ERROR(trainer.Accumulate(batch));
        ASYRA_RETURN_IF_ERROR(trainer.Step(batch, {.rate = 0.01}));
        TrainMetrics metrics = ASYRA_VALUE(trainer.Metrics());
        EXPECT_FALSE(metrics.skipped);
        EXPECT_TRUE(std::isfinite(metrics.loss));
        return absl::OkStatus();
      }));
}

TEST(TrainingFolder, KeepsNoProgramOfAnotherTraining) {
  ScratchFolder folder("training");
  ASYRA_CHECK_OK(WriteTrainingFolder(ProgramsOfBatches(""), folder.path()));
  auto trainer = ASYRA_VALUE(Trainer::Load(folder.path()));
  EXPECT_EQ(trainer->batches_per_step(), 3);
  EXPECT_TRUE(trainer->programs().accumulate.has_value());
  ASYRA_CHECK_OK(WriteTrainingFolder(SmallTraining(""), folder.path()));
  trainer = ASYRA_VALUE(Trainer::Load(folder.path()));
  EXPECT_EQ(trainer->batches_per_step(), 1);
  EXPECT_FALSE(trainer->programs().accumulate.has_value());
}

}  // namespace
}  // namespace asyra
