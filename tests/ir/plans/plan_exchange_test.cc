// Exchanges of messages in plans that are written by hand: they mean the body,
// and bugs are named.
#include <string>

#include "ir/plans/plan_interpreter.h"
#include "ir/plans/plan_text.h"
#include "ir/plans/verify_plan.h"
#include "ir/support/status.h"
#include "tests/ir/plans/plan_case.h"
#include "tests/ir/plans/planted_bug.h"

namespace asyra {
namespace {

// Pairs first, then each to the other pair: rank 2 sends to rank 0, not to all.
constexpr std::string_view kExchangedPlan = R"(plan {
  queues compute, library
  rank r:
    on compute:
      piece %3[#r, #r] from %0, %1;
      await came from library; piece %3[#r+1, #r];
      await came from library; piece %3[#r+2, #r];
      await came from library; piece %3[#r+3, #r]
    on library:
      exchange 1 send %0[#r, :] to %2 of r-1; post came to compute;
      exchange 2 send %0[#r, :] to %2 of r-2; post came to compute;
      exchange 3 send %0[#r, :] to %2 of r-3; post came to compute
})";

std::string ErrorOfPlan(std::string_view from, std::string_view to) {
  auto plan = ParsePlan(Replaced(kExchangedPlan, from, to),
                        GatherMatmuls(4, 8, 1).Group());
  return plan.ok() ? "no error" : std::string(MessageOf(plan.status()));
}

TEST(PlanExchange, MeansTheBody) {
  PlanCase c = GatherMatmuls(4, 8, 1);
  PlanRef plan = ASYRA_VALUE(ParsePlan(kExchangedPlan, c.Group()));
  EXPECT_EQ(PrintPlan(*ASYRA_VALUE(ParsePlan(PrintPlan(*plan), c.Group()))),
            PrintPlan(*plan));
  std::vector<Tensor> whole = WholeOperands(c, 2);
  Tensor want = Meaning(c, whole)[0];
  Type type = ASYRA_VALUE(OverlapTypes(c.body, c.operands, c.mesh))[3];
  for (int connections : {0, 1, 2}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      auto got = ASYRA_VALUE(RunPlan(
          *plan, Spread(c, whole), {.seed = seed, .connections = connections}));
      for (int r = 0; r < 4; ++r) {
        EXPECT_TRUE(SameBytes(got[r][0], Shard(want, type, c.mesh, r)));
      }
    }
  }
}

TEST(PlanExchange, BugsAreNamed) {
  // The piece may come before what it reads.
  EXPECT_EQ(
      ErrorOfPlan("await came from library; piece %3[#r+2, #r]",
                  "piece %3[#r+2, #r]"),
      "rank 0, step 10 (line 12, column 47), on library: post came 3 from "
      "library of rank 0 to compute of rank 0: nobody waits for it, only "
      "for count 2");
  EXPECT_EQ(ErrorOfPlan("piece %3[#r+1, #r]", "piece %3[#r+2, #r]"),
            "rank 0, step 8 (line 7, column 32), on compute: matmul of "
            "%3[4:6, 0:2]: [4:6, 0:2] is also written by rank 0, step 4 (line "
            "6, column 32), on compute: matmul of %3[4:6, 0:2]");
  // It goes to the wrong rank.
  EXPECT_EQ(ErrorOfPlan("to %2 of r-2", "to %2 of r-1"),
            "rank 0, step 5 (line 11, column 7), on library: exchange 2, sends "
            "%0[0:2, 0:5] to rank 3: [2:4, 0:5] is also written by rank 0, "
            "step 1 (line 10, column 7), on library: exchange 1, sends "
            "%0[0:2, 0:5] to rank 3");
  EXPECT_EQ(
      ErrorOfPlan("exchange 3 send", "exchange 1 send"),
      "rank 0, step 11 (line 12, column 7), on library: exchange 1, sends "
      "%0[0:2, 0:5] to rank 1: it comes behind exchange 2: all ranks make "
      "these calls in the order of their numbers");
  EXPECT_EQ(ErrorOfPlan("exchange 3 send", "exchange 9 send"),
            "line 13, column 1: of 3 exchanges the last is number 9");
}

// The first exchange waits for what comes with it.
TEST(PlanExchange, DeadlocksAreNamed) {
  std::string plan = Replaced(kExchangedPlan, "exchange 1 send",
                              "await late from compute; exchange 1 send");
  plan = Replaced(plan, "await came from library; piece %3[#r+1, #r]",
                  "await came from library; post late to library; "
                  "piece %3[#r+1, #r]");
  auto parsed = ParsePlan(plan, GatherMatmuls(4, 8, 1).Group());
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(MessageOf(parsed.status()),
            "rank 0, step 1 (line 6, column 7), on compute: wait for came 1 "
            "from library of rank 0 to compute of rank 0: a deadlock: it waits "
            "for rank 0, step 10 (line 10, column 72), on library: post came 1 "
            "from library of rank 0 to compute of rank 0, which waits for this "
            "in the end");
}

TEST(PlanExchange, IsNotMixedWithCopies) {
  EXPECT_EQ(ErrorOfPlan("exchange 1 send %0[#r, :] to %2 of r-1",
                        "put %0[#r, :] to %2 of r-1"),
            "line 13, column 1: of 2 exchanges the last is number 3");
  EXPECT_EQ(ErrorOfPlan("exchange 3 send %0[#r, :] to %2 of r-3",
                        "put %0[#r, :] to %2 of r-3"),
            "rank 0, step 9 (line 12, column 7), on library: copy %0[0:2, 0:5] "
            "to %2[0:2, 0:5] of rank 1: it reaches another rank, in a plan "
            "with exchanges");
}

TEST(PlanExchange, SyntaxErrorsNameTheirPlace) {
  EXPECT_EQ(ErrorOfPlan("exchange 1", "exchange 0"),
            "line 10, column 16: exchange 0, numbers are 1 to 1048576");
  EXPECT_EQ(ErrorOfPlan("send %0[#r, :] to %2 of r-1",
                        "send %0[#r, :] to %2 of r-1, put"),
            "line 10, column 47: expected 'send', found 'put'");
  EXPECT_EQ(ErrorOfPlan("to %2 of r-1", "to %2"),
            "line 10, column 38: expected 'of', found ';'");
}

}  // namespace
}  // namespace asyra
