#include "executor/comm/choices.h"

#include "gtest/gtest.h"
#include "tests/executor/ranks.h"

namespace asyra {
namespace {

std::vector<absl::Status> Compared(
    const std::vector<std::vector<NamedChoice>>& choices) {
  return OnRanks(static_cast<int64_t>(choices.size()), {.timeout_s = 30},
                 [&](Communicator& world) {
                   return CheckSameChoices(world, choices[world.rank()]);
                 });
}

TEST(Choices, AreTheSame) {
  std::vector<NamedChoice> same = {{"--rate", "0.001"}, {"--data", "a b\n3:c"}};
  for (const absl::Status& status : Compared({same, same, same})) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(Choices, TheFirstThatDiffersIsNamedWithBothValues) {
  ExpectAll(
      Compared({{{"--seed", "1"}, {"--rate", "0.001"}, {"--steps", "5"}},
                {{"--seed", "1"}, {"--rate", "0.001"}, {"--steps", "5"}},
                {{"--seed", "1"}, {"--rate", "0.003"}, {"--steps", "6"}}}),
      "--rate is 0.001 on rank 0 and 0.003 on rank 2");
}

TEST(Choices, MayBeGivenOnOneRankAlone) {
  ExpectAll(Compared({{{"--checkpoint", ""}}, {{"--checkpoint", "run"}}}),
            "--checkpoint is not given on rank 0 and run on rank 1");
  ExpectAll(Compared({{}, {{"--new", "x"}}}),
            "--new is not given on rank 0 and x on rank 1");
  ExpectAll(Compared({{{"--new", "x"}}, {}}),
            "--new is x on rank 0 and not given on rank 1");
}

// Values run into each other only in a text without lengths.
TEST(Choices, AnyTextIsAValue) {
  ExpectAll(
      Compared({{{"a", "1:b2:c"}, {"b", ""}}, {{"a", "1:b"}, {"b", "c"}}}),
      "a is 1:b2:c on rank 0 and 1:b on rank 1");
}

}  // namespace
}  // namespace asyra
