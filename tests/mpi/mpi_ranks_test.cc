// One rank of four, started by mpirun: programs give the bytes that they give
// when the ranks are threads.
#include "executor/cpu/run_on_cpu.h"
#include "executor/mpi/mpi_world.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/support/status.h"
#include "tests/executor/runnable.h"

namespace asyra {
namespace {

Communicator* world = nullptr;

void ExpectSameAsThreads(const Program& program, uint64_t seed) {
  std::vector<Tensor> inputs = RandomInputs(program, seed, 4);
  auto threads = RunOnCpu(program, inputs);
  ASSERT_TRUE(threads.ok()) << threads.status();
  auto processes = RunRankOnCpu(program, inputs, *world, {.repeat = 3});
  ASSERT_TRUE(processes.ok()) << processes.status();
  ASSERT_EQ(processes->outputs.size(), threads->outputs.size());
  for (size_t i = 0; i < threads->outputs.size(); ++i) {
    EXPECT_TRUE(SameBytes(processes->outputs[i], threads->outputs[i]))
        << "output " << i;
  }
}

// Each kind of collective along both dimensions, in types that MPI does not
// know; sums that members compute for themselves, and that they share.
constexpr char kCollectives[] = R"(asyra 1 local
mesh (dp=2, tp=2)
program @p(%x: f32[8@dp, 12@tp], %h: bf16[4, 6@tp], %n: i32[4@tp, 6],
    %l: f32[64@tp, 4095])
    -> (f32[8@dp, 12], f32[8@(dp,tp), 12], f32[8@dp, 12@tp], f32[],
        bf16[4], i32[4, 6], f32[4095], f32[12@tp, 8@dp], f32[12@(tp,dp), 8]) {
  %g = all_gather(%x) {axes=tp, dim=1} : f32[8@dp, 12]
  %a = all_to_all(%x) {axes=tp, from=1, to=0} : f32[8@(dp,tp), 12]
  %b = all_to_all(%a) {axes=tp, from=0, to=1} : f32[8@dp, 12@tp]
  %s = reduce_sum(%x) {dims=[0, 1], keep=false} : f32[] partial(dp,tp)
  %t = all_reduce(%s) {axes=(dp,tp)} : f32[]
  %hs = reduce_sum(%h) {dims=[1], keep=false} : bf16[4] partial(tp)
  %ht = all_reduce(%hs) {axes=tp} : bf16[4]
  %w = all_gather(%n) {axes=tp, dim=0} : i32[4, 6]
  %ls = reduce_sum(%l) {dims=[0], keep=false} : f32[4095] partial(tp)
  %la = all_reduce(%ls) {axes=tp} : f32[4095]
  %xt = transpose(%x) {perm=[1, 0]} : f32[12@tp, 8@dp]
  %xa = all_to_all(%xt) {axes=dp, from=1, to=0} : f32[12@(tp,dp), 8]
  return %g, %a, %b, %t, %ht, %w, %la, %xt, %xa
}
)";

TEST(MpiRanks, ComputeEveryCollective) {
  Program program = ASYRA_VALUE(ParseProgram(kCollectives));
  ASYRA_CHECK_OK(Verify(program));
  ExpectSameAsThreads(program, 1);
}

// The same of several values at once: small, shared, of nothing, and of blocks
// that are not contiguous.
constexpr char kJoined[] = R"(asyra 1 local
mesh (dp=2, tp=2)
program @p(%x: f32[8@dp, 12@tp], %h: bf16[4, 6@tp], %n: i32[4, 64@tp],
    %s: f32[2@tp, 5], %l: f32[2@tp, 9000], %e: f32[2@tp, 0])
    -> (f32[8@dp, 12], bf16[4, 6], i32[4, 64], f32[8@(dp,tp), 12],
        i32[4@tp, 64], bf16[4@tp, 6], f32[5], f32[9000], f32[0],
        f32[9000@tp], f32[5]) {
  %g, %i, %j = all_gather(%x, %h, %n) {dim=1, axes=tp} : f32[8@dp, 12], bf16[4, 6], i32[4, 64]
  %a, %b, %c = all_to_all(%x, %n, %h) {from=1, to=0, axes=tp} : f32[8@(dp,tp), 12], i32[4@tp, 64], bf16[4@tp, 6]
  %sp = reduce_sum(%s) {dims=[0], keep=false} : f32[5] partial(tp)
  %lp = reduce_sum(%l) {dims=[0], keep=false} : f32[9000] partial(tp)
  %ep = reduce_sum(%e) {dims=[0], keep=false} : f32[0] partial(tp)
  %t, %u, %v, %w = all_reduce(%sp, %lp, %ep, %sp) {axes=tp} : f32[5], f32[9000], f32[0], f32[5]
  %r, %q = reduce_scatter(%lp, %ep) {dim=0, axes=tp} : f32[9000@tp], f32[0@tp]
  return %g, %i, %j, %a, %b, %c, %t, %u, %v, %r, %w
}
)";

TEST(MpiRanks, ComputeCollectivesOfSeveralValues) {
  Program program = ASYRA_VALUE(ParseProgram(kJoined));
  ASYRA_CHECK_OK(Verify(program));
  ExpectSameAsThreads(program, 1);
}

TEST(MpiRanks, RunScheduledProgramsOfManyStreams) {
  for (int seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    ExpectSameAsThreads(RunnableProgram(seed), 7);
  }
}

TEST(MpiRanks, ReduceScatterInTheOrderOfTheGroup) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 local
mesh (tp=4)
program @p(%x: f32[16@tp, 8, 512]) -> (f32[8, 512], f32[8, 512]) {
  %s = reduce_sum(%x) {dims=[0], keep=false} : f32[8, 512] partial(tp)
  %r0 = reduce_scatter(%s) {axes=tp, dim=0} : f32[8@tp, 512]
  %r1 = reduce_scatter(%s) {axes=tp, dim=1} : f32[8, 512@tp]
  %g0 = all_gather(%r0) {axes=tp, dim=0} : f32[8, 512]
  %g1 = all_gather(%r1) {axes=tp, dim=1} : f32[8, 512]
  return %g0, %g1
}
)"));
  ExpectSameAsThreads(program, 3);
}

}  // namespace

// Connects for all tests; the world ends before the process does.
int RunTests() {
  auto connected = ConnectMpi({.timeout_s = 60});
  if (!connected.ok()) {
    fmt::print(stderr, "{}\n", MessageOf(connected.status()));
    return 1;
  }
  world = connected->get();
  int result = RUN_ALL_TESTS();
  if (result != 0) world->Abort(absl::InternalError("a test failed"));
  return result;
}

}  // namespace asyra

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return asyra::RunTests();
}
