// Steps whose data is not what it should be: ranks that are given different
// batches, and batches in which no label counts.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "gmock/gmock.h"
#include "tests/train/small_training.h"

namespace asyra {
namespace {

using testing::HasSubstr;

const TrainingPrograms& Programs(const std::string& mesh) {
  static auto* all = new std::map<std::string, TrainingPrograms>;
  auto found = all->find(mesh);
  if (found == all->end()) {
    found = all->emplace(mesh, SmallTraining(mesh)).first;
  }
  return found->second;
}

Tensor Reversed(const Tensor& tokens) {
  std::vector<int64_t> numbers = tokens.ToInts();
  std::reverse(numbers.begin(), numbers.end());
  return Tensor::FromInts(tokens.dtype(), tokens.shape(), numbers);
}

// As OnTrainers, with the rank.
template <typename Body>
absl::Status OnRanks(const std::string& mesh, Body body) {
  auto device = CreateCpuDevice({.threads_per_stream = 1});
  auto text = SmallText();
  const TrainingPrograms& programs = Programs(mesh);
  return RunLocalRanks(
      programs.step.mesh.num_devices(), {},
      [&](Communicator& world) -> absl::Status {
        ASYRA_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(programs));
        ASYRA_RETURN_IF_ERROR(trainer->Prepare(*device, &world));
        ASYRA_ASSIGN_OR_RETURN(
            auto data, TokenBatches::Open(text, programs.step, world.rank()));
        return body(*trainer, *data, world.rank());
      });
}

// Of ranks that hold the same part of a batch, one has shuffled it.
TEST(Trainer, RanksThatAreGivenDifferentDataAreRefused) {
  for (int64_t wrong : {1, 3, 4}) {
    absl::Status status = OnRanks(
        "tp=2",
        [&](Trainer& trainer, TokenBatches& data,
            int64_t rank) -> absl::Status {
          while (trainer.step() < 4) {
            ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, data.Next());
            if (rank == 1 && trainer.step() + 1 == wrong) {
              batch[0] = Reversed(batch[0]);
            }
            ASYRA_RETURN_IF_ERROR(trainer.Step(batch, {.rate = 0.01}));
          }
          return trainer.Finish();
        });
    // Later steps are not compared.
    if (wrong > 3) {
      EXPECT_EQ(status, absl::OkStatus());
      continue;
    }
    EXPECT_THAT(std::string(MessageOf(status)),
                HasSubstr(fmt::format("step {}: ranks 0 and 1 are given "
                                      "different data for %input_ids, "
                                      "i64[4, 16]",
                                      wrong)));
  }
}

TEST(Trainer, RanksWithPartsOfTheirOwnMayHaveAnyData) {
  ASYRA_CHECK_OK(OnTrainers(
      Programs("dp=2"), {},
      [](Trainer& trainer, TokenBatches& data) -> absl::Status {
        ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, data.Next());
        batch[0] = Reversed(batch[0]);
        ASYRA_RETURN_IF_ERROR(trainer.Step(batch, {.rate = 0.01}));
        return trainer.Finish();
      }));
}

TEST(Trainer, RanksMustAgreeOnTheRate) {
  absl::Status status = OnRanks(
      "dp=2",
      [](Trainer& trainer, TokenBatches& data, int64_t rank) -> absl::Status {
        ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, data.Next());
        double rate = 0.01 * static_cast<double>(rank);
        return trainer.Step(batch, {.rate = rate});
      });
  EXPECT_THAT(std::string(MessageOf(status)),
              HasSubstr("step 1: %rate is 0 on rank 0 and 0.01"));
}

Tensor NoLabels(const Tensor& labels) {
  return Tensor::FromInts(labels.dtype(), labels.shape(),
                          std::vector<int64_t>(labels.num_elements(), -100));
}

// Of params and states.
std::map<std::string, Tensor> ValuesOf(Trainer& trainer) {
  std::map<std::string, Tensor> values;
  for (const auto& [name, state] : trainer.states().states()) {
    values.emplace(name, ASYRA_VALUE(trainer.states().Get(name)));
  }
  return values;
}

// With weight decay, gradients of zero would change params.
TEST(Trainer, AStepInWhichNoLabelCountsChangesNothing) {
  for (auto [optimizer, clip, mesh] :
       {std::tuple{"adamw", 1.0, ""}, std::tuple{"adamw", 0.0, "dp=2"},
        std::tuple{"sgd", 1.0, "dp=2"}, std::tuple{"sgd", 0.0, ""}}) {
    TrainingPrograms programs = SmallTraining(
        mesh,
        TrainOptions{.optimizer = optimizer, .momentum = 0.5, .clip = clip});
    absl::Status status = OnTrainers(
        programs, {}, [](Trainer& trainer, TokenBatches& data) -> absl::Status {
          ASYRA_RETURN_IF_ERROR(StepsUpTo(1, trainer, data));
          std::map<std::string, Tensor> before = ValuesOf(trainer);
          ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, data.Next());
          batch[1] = NoLabels(batch[1]);
          Trainer::LossSum loss = ASYRA_VALUE(trainer.Evaluate(batch));
          EXPECT_EQ(loss.count, 0);
          EXPECT_TRUE(std::isnan(loss.mean()));
          ASYRA_RETURN_IF_ERROR(trainer.Step(batch, {.rate = 0.01}));
          absl::Status status = trainer.Finish();
          for (const auto& [name, value] : ValuesOf(trainer)) {
            EXPECT_TRUE(SameBytes(before.at(name), value)) << name;
          }
          return status;
        });
    EXPECT_THAT(std::string(MessageOf(status)),
                HasSubstr("step 2: no label counts, there is no loss; the step "
                          "changed nothing"));
  }
}

TEST(Trainer, AStepInWhichNoLabelCountsMayBeSkipped) {
  ASYRA_CHECK_OK(OnTrainers(
      Programs(""), {.not_finite = NotFinite::kSkip},
      [](Trainer& trainer, TokenBatches& data) -> absl::Status {
        ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, data.Next());
        batch[1] = NoLabels(batch[1]);
        ASYRA_RETURN_IF_ERROR(trainer.Step(batch, {.rate = 0.01}));
        ASYRA_RETURN_IF_ERROR(StepsUpTo(2, trainer, data));
        std::vector<TrainMetrics> metrics = trainer.TakeMetrics();
        EXPECT_TRUE(metrics[0].skipped);
        EXPECT_EQ(metrics[0].count, 0);
        EXPECT_FALSE(metrics[1].skipped);
        EXPECT_EQ(metrics[1].count, 4 * 16);
        EXPECT_EQ(trainer.steps_skipped(), 1);
        return absl::OkStatus();
      }));
}

}  // namespace
}  // namespace asyra
