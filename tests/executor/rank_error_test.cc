#include "executor/comm/rank_error.h"

#include <numeric>

#include "executor/comm/thread_world.h"
#include "gmock/gmock.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

TEST(RankError, ListsAFewRanks) {
  EXPECT_EQ(ListRanks({3}), "rank 3");
  EXPECT_EQ(ListRanks({1, 3}), "ranks 1 3");
  std::vector<int64_t> many(1000);
  std::iota(many.begin(), many.end(), 0);
  EXPECT_EQ(ListRanks(many),
            "ranks 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 and 984 more");
}

TEST(RankError, SaysTheSameEverywhere) {
  EXPECT_EQ(MessageOf(NothingHeard({1, 2}, 0.5)),
            "nothing was heard from ranks 1 2 within 0.5 s");
  EXPECT_EQ(MessageOf(DidNotCome("%x", {4}, 60)),
            "%x: of its group, rank 4 did not come within 60 s");
  EXPECT_EQ(MessageOf(DidNotBegin("%x", {4}, 60)),
            "%x: rank 4 did not begin the step within 60 s");
}

TEST(RankError, NamesTheOneThatFailed) {
  absl::Status stopped =
      RankFailed(2, absl::DeadlineExceededError("its process is stopped"));
  EXPECT_EQ(MessageOf(stopped), "rank 2 failed: its process is stopped");
  EXPECT_EQ(MessageOf(RankFailed(1, stopped)), MessageOf(stopped));
  EXPECT_EQ(MessageOf(RankFailed(1, Invalid("rank 2 is late"))),
            "rank 1 failed: rank 2 is late");
}

// What a rank says of its own error does not begin with its number, which is
// put in front once.
TEST(RankError, BeginsOnceWithItsRank) {
  absl::Status said = RunLocalRanks(2, {.timeout_s = 0.2},
                                    [](Communicator& world) -> absl::Status {
                                      if (world.rank() == 0)
                                        return absl::OkStatus();
                                      return world.Exchange("").status();
                                    });
  EXPECT_EQ(MessageOf(said),
            "rank 1: nothing was heard from rank 0 within 0.2 s");
}

// The rank that was told of an error may end first.
TEST(RankError, IsThatOfTheRankThatHasIt) {
  absl::Status said = RunLocalRanks(2, {}, [](Communicator& world) {
    absl::Status cause = absl::InternalError("out of ideas");
    if (world.rank() == 0) {
      world.Abort(RankFailed(1, cause));
      return RankFailed(1, cause);
    }
    return cause;
  });
  EXPECT_EQ(MessageOf(said), "rank 1: out of ideas");
}

}  // namespace
}  // namespace asyra
