// Bounds and replays against the best there is.
#include "tests/support/exact.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "tests/simulator/replay/random_program.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

const ReplayOptions kAlone = {.contention = false, .launch_scale = 0};

// Two chains of a computation of 4 us, a collective of 12 us and a computation
// of 4 us: the second computation of one hides nothing, the first ones do.
TEST(Exact, FindsTheOrderThatHidesMost) {
  Program program = Parse(R"(asyra 1 scheduled
mesh (dp=2, tp=2)
program @f(%x: f32[500], %y: f32[500]) -> (f32[500], f32[500]) {
  %a = neg(%x) on compute : f32[500]
  %a2 = neg(%a) on compute : f32[500]
  %a3 = neg(%a2) on compute : f32[500]
  %b = neg(%y) on compute : f32[500] partial(tp)
  %g = start all_reduce(%b) {axes=tp} on tp : future f32[500]
  %r = wait(%g) on compute : f32[500]
  %s = neg(%r) on compute : f32[500]
  return %a3, %s
})");
  CostedProgram costed(program, CostModel(TestMachine(), program.mesh));
  EXPECT_DOUBLE_EQ(Replay(costed, kAlone).makespan_us, 16 + 12 + 4);
  ExactSchedule best = SolveExactly(costed);
  EXPECT_DOUBLE_EQ(best.makespan_us, 4 + 12 + 4);
  EXPECT_DOUBLE_EQ(Replay(costed, best.order, kAlone).makespan_us, 20);
}

class RandomExact : public testing::TestWithParam<int> {};

TEST_P(RandomExact, LiesBetweenTheBoundAndTheReplay) {
  auto seed = static_cast<uint32_t>(GetParam());
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Program program = Parse(RandomProgram(seed, 12, 2).text());
  CostedProgram costed(program, CostModel(TestMachine(), program.mesh));
  SimResult as_written = Replay(costed, kAlone);
  ExactSchedule best = SolveExactly(costed);
  EXPECT_LE(best.makespan_us, as_written.makespan_us + 1e-9);
  EXPECT_LE(as_written.lower_bound_us, best.makespan_us + 1e-9);
  // Two ways of counting the same schedule.
  EXPECT_NEAR(Replay(costed, best.order, kAlone).makespan_us, best.makespan_us,
              1e-9);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomExact, testing::Range(1, 31));

// A bound that never said anything would hold too.
TEST(Exact, TheBoundIsOftenReached) {
  int reached = 0;
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    Program program = Parse(RandomProgram(seed, 12, 2).text());
    CostedProgram costed(program, CostModel(TestMachine(), program.mesh));
    double bound = Replay(costed, kAlone).lower_bound_us;
    double best = SolveExactly(costed).makespan_us;
    EXPECT_GE(bound, 0.75 * best) << "seed " << seed;
    reached += bound > best - 1e-9;
  }
  EXPECT_GE(reached, 20);
}

}  // namespace
}  // namespace asyra
