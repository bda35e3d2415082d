// Trainers of one run that are given different options.
#include "gmock/gmock.h"
#include "tests/train/small_training.h"

namespace asyra {
namespace {

using testing::HasSubstr;

// Of two ranks, of which the second has `odd` options.
absl::Status Prepared(const TrainingPrograms& programs,
                      const TrainerOptions& odd) {
  auto device = CreateCpuDevice({.threads_per_stream = 1});
  return RunLocalRanks(2, {.timeout_s = 30}, [&](Communicator& world) {
    auto trainer = ASYRA_VALUE(Trainer::Create(programs));
    return trainer->Prepare(*device, &world,
                            world.rank() == 1 ? odd : TrainerOptions());
  });
}

TEST(TrainerChoices, DifferentOptionsAreRefusedByName) {
  const TrainingPrograms programs = SmallTraining("dp=2");
  const std::pair<TrainerOptions, std::string> cases[] = {
      {{.resume_from = "run"}, "resume_from is not given on rank 0 and run on"},
      {{.seed = 7}, "seed is 1 on rank 0 and 7 on rank 1"},
      {{.random_weights = true}, "random_weights is false on rank 0 and true"},
      {{.not_finite = NotFinite::kSkip}, "not_finite is kStop on rank 0 and"},
      {{.check_finite = true}, "check_finite is false on rank 0 and true on"},
      {{.evaluates = false}, "evaluates is true on rank 0 and false on rank 1"},
      {{.checkpoints = {.keep = 2}}, "checkpoints.keep is 0 on rank 0 and 2"},
      {{.checkpoints = {.max_file_bytes = 5}}, "checkpoints.max_file_bytes is"},
  };
  for (const auto& [odd, message] : cases) {
    EXPECT_THAT(std::string(MessageOf(Prepared(programs, odd))),
                HasSubstr(message));
  }
  // Of one rank.
  EXPECT_EQ(Prepared(programs, {.profile = true}), absl::OkStatus());
  EXPECT_EQ(Prepared(programs, {.sharing = 2}), absl::OkStatus());
}

}  // namespace
}  // namespace asyra
