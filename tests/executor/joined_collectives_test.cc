// Collectives of several values: the bytes that the interpreter gives, in place
// and apart, and errors that name what does not fit.
#include "executor/cpu/run_on_cpu.h"
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/verify/verifier.h"
#include "tests/executor/as_interpreted.h"
#include "tests/executor/ranks.h"

namespace asyra {
namespace {

// Of each kind: small and large, of other shapes and element types, nothing at
// all.
TEST(JoinedCollectives, OfEveryKindGiveWhatTheInterpreterGives) {
  ExpectSameAsInterpreted(Parse(R"(asyra 1 scheduled
mesh (dp=2, tp=2)
program @f(%x: f32[8@dp, 12@tp], %h: bf16[4, 6@tp], %n: i32[4, 64@tp],
    %s: f32[2@tp, 5], %l: f32[2@tp, 9000], %i: i64[2@tp, 4, 2], %e: f32[2@tp, 0])
    -> (f32[8@dp, 12], bf16[4, 6], i32[4, 64], f32[8@(dp,tp), 12],
        i32[4@tp, 64], bf16[4@tp, 6], f32[5], f32[9000], i64[4, 2], f32[0],
        f32[9000@tp], i64[4@tp, 2]) {
  %gf, %gg, %gh = start all_gather(%x, %h, %n) {dim=1, axes=tp} on tp : future f32[8@dp, 12], future bf16[4, 6], future i32[4, 64]
  %sp = reduce_sum(%s) {dims=[0], keep=false} on c : f32[5] partial(tp)
  %lp = reduce_sum(%l) {dims=[0], keep=false} on c : f32[9000] partial(tp)
  %ip = reduce_sum(%i) {dims=[0], keep=false} on c : i64[4, 2] partial(tp)
  %ep = reduce_sum(%e) {dims=[0], keep=false} on c : f32[0] partial(tp)
  %af, %ag, %ah = start all_to_all(%x, %n, %h) {from=1, to=0, axes=tp} on tp : future f32[8@(dp,tp), 12], future i32[4@tp, 64], future bf16[4@tp, 6]
  %rf, %rg, %rh, %re = start all_reduce(%sp, %lp, %ip, %ep) {axes=tp} on tp : future f32[5], future f32[9000], future i64[4, 2], future f32[0]
  %cf, %cg = start reduce_scatter(%lp, %ip) {dim=0, axes=tp} on tp : future f32[9000@tp], future i64[4@tp, 2]
  %g2 = wait(%gh) on c : i32[4, 64]
  %g0 = wait(%gf) on c : f32[8@dp, 12]
  %r3 = wait(%re) on c : f32[0]
  %g1 = wait(%gg) on c : bf16[4, 6]
  %a0 = wait(%af) on c : f32[8@(dp,tp), 12]
  %a1 = wait(%ag) on c : i32[4@tp, 64]
  %a2 = wait(%ah) on c : bf16[4@tp, 6]
  %r0 = wait(%rf) on c : f32[5]
  %r1 = wait(%rg) on c : f32[9000]
  %r2 = wait(%rh) on c : i64[4, 2]
  %c0 = wait(%cf) on c : f32[9000@tp]
  %c1 = wait(%cg) on c : i64[4@tp, 2]
  return %g0, %g1, %g2, %a0, %a1, %a2, %r0, %r1, %r2, %r3, %c0, %c1
}
)"));
}

// Threads of the host have no copy engines, and it is told.
TEST(JoinedCollectives, ListsWhatCopyEnginesShouldCarry) {
  Program program = Parse(R"(asyra 1 local
mesh (tp=2)
program @f(%x: f32[8, 12@tp]) -> (f32[8, 12], f32[8@tp, 12]) {
  %g = all_gather(%x) {dim=1, axes=tp, transport=copy_engine} : f32[8, 12]
  %a = all_to_all(%x) {from=1, to=0, axes=tp} : f32[8@tp, 12]
  return %g, %a
}
)");
  RunResult run = ASYRA_VALUE(RunOnCpu(program, RandomInputs(program, 1, 8)));
  EXPECT_THAT(run.fallback_collectives, testing::ElementsAre("all_gather"));
  ASSERT_EQ(run.collectives.size(), 2);
  const CollectiveRun &gather = run.collectives[0], &other = run.collectives[1];
  EXPECT_EQ(gather.label, "all_gather(tp)");
  EXPECT_EQ(gather.asked, kCopyEngine);
  EXPECT_EQ(gather.ran, kSharedMemory);
  EXPECT_EQ(gather.obstacle, "the devices have no copy engines");
  EXPECT_EQ(gather.count, 1);
  EXPECT_EQ(other.label, "all_to_all(tp)");
  EXPECT_EQ(other.asked, kLibrary);
  EXPECT_EQ(other.obstacle, "");
}

// One sum overwrites its operand, the other does not.
TEST(JoinedCollectives, SumsMayLieOnTheirOwnOperands) {
  for (int64_t at : {65536, 131072}) {
    ExpectSameAsInterpreted(Parse(fmt::format(R"(asyra 1 allocated
mesh (tp=2)
program @f(%s: f32[2@tp, 7], %l: f32[2@tp, 9000]) -> (f32[7], f32[9000]) {{
  %p = reduce_sum(%s) {{dims=[0], keep=false}} on c : f32[7] partial(tp) at 0
  %q = reduce_sum(%l) {{dims=[0], keep=false}} on c : f32[9000] partial(tp) at 65536
  %f, %g = start all_reduce(%p, %q) {{axes=tp}} on tp : future f32[7] at 0, future f32[9000] at {0}
  %z = wait(%g) on c : f32[9000] at {0}
  %y = wait(%f) on c : f32[7] at 0
  return %y, %z
}}
)",
                                              at)));
  }
}

TEST(JoinedCollectives, AreOneEntryOfTheProfile) {
  Program program = Parse(R"(asyra 1 scheduled
mesh (tp=2)
program @f(%x: f32[8@tp], %y: f32[6@tp]) -> (f32[8], f32[6]) {
  %f, %g = start all_gather(%x, %y) {dim=0, axes=tp} on tp : future f32[8], future f32[6]
  %a = wait(%f) on c : f32[8]
  %b = wait(%g) on c : f32[6]
  return %a, %b
}
)");
  auto run = RunOnCpu(program, SmallIntegerInputs(program),
                      {.executor = {.profile = true}});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->profile.size(), 1);  // waits are views
}

}  // namespace
}  // namespace asyra
