// Joined collectives compute what they computed apart, and are joined only
// where that is never worse.
#include "passes/schedule/tile/join_collectives.h"

#include "absl/algorithm/container.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/schedule/tile/bucket.h"
#include "passes/schedule/tile/bucket_candidates.h"
#include "passes/schedule/tile/join_candidates.h"
#include "passes/search/schedule.h"
#include "simulator/cost/load_machine.h"
#include "simulator/replay/simulate.h"
#include "tests/executor/runnable.h"
#include "tests/support/costs.h"
#include "tests/support/fixture.h"
#include "tests/support/parse.h"
#include "tests/support/sanitized.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

// %h needs the sum of %f; %g and %i need neither.
constexpr std::string_view kSums = R"(asyra 1 scheduled
mesh (dp=2, tp=2)
program @sums(%a: f32[2@tp, 6], %b: f32[2@tp, 4, 2], %c: f32[2@dp, 3])
    -> (f32[6], f32[4, 2], f32[6], f32[3], f32[6]) {
  %p = reduce_sum(%a) {dims=[0], keep=false} on c : f32[6] partial(tp)
  %f = start all_reduce(%p) {axes=tp} on tp : future f32[6]
  %q = reduce_sum(%b) {dims=[0], keep=false} on c : f32[4, 2] partial(tp)
  %g = start all_reduce(%q) {axes=tp} on tp : future f32[4, 2]
  %r = reduce_sum(%c) {dims=[0], keep=false} on c : f32[3] partial(dp)
  %d = start all_reduce(%r) {axes=dp} on dp : future f32[3]
  %y = wait(%f) on c : f32[6]
  %s = mul(%p, %y) on c : f32[6] partial(tp)
  %h = start all_reduce(%s) {axes=tp} on tp : future f32[6]
  %i = start all_reduce(%p) {axes=tp, ctas=2} on tp : future f32[6]
  %z = wait(%g) on c : f32[4, 2]
  %u = wait(%h) on c : f32[6]
  %v = wait(%d) on c : f32[3]
  %w = wait(%i) on c : f32[6]
  return %y, %z, %u, %v, %w
}
)";

void ExpectSameMeaning(const Program& before, const Program& after) {
  absl::Status verified = Verify(after);
  ASSERT_TRUE(verified.ok()) << verified << "\n" << ToString(after);
  std::vector<Tensor> inputs = SmallIntegerInputs(before);
  absl::Status same = SameOutputs(ASYRA_VALUE(Interpret(before, inputs)),
                                  ASYRA_VALUE(Interpret(after, inputs)), 0);
  EXPECT_TRUE(same.ok()) << same << "\n" << ToString(after);
}

TEST(JoinCollectives, StartsWhereTheLastOfThemDid) {
  Program program = ParseVerified(kSums);
  Program joined = ASYRA_VALUE(JoinCollectives(program, {{1, 3}}));
  EXPECT_THAT(ToString(joined),
              HasSubstr("partial(tp)\n  %f, %g = start all_reduce(%p, %q) "
                        "{axes=tp} on tp : future f32[6], future f32[4, 2]\n"));
  EXPECT_EQ(joined.ops.size(), program.ops.size() - 1);
  ExpectSameMeaning(program, joined);
}

// Issued first what needs nothing else.
TEST(JoinCollectives, KeepsToAnOrder) {
  Program program = ParseVerified(kSums);
  std::vector<int> order = {4, 5, 2, 3, 0, 1, 9, 6, 7, 8, 10, 11, 12, 13};
  Program joined = ASYRA_VALUE(JoinCollectives(program, {{1, 3}}, &order));
  ASSERT_EQ(order.size(), joined.ops.size());
  std::string issued;
  for (int op : order) {
    issued += joined.value_name(joined.ops[op].results[0]) + " ";
  }
  EXPECT_EQ(issued, "r d q p f i y s h z u v w ");
}

TEST(JoinCollectives, WhatDoesNotFitIsLeftOut) {
  Program program = ParseVerified(kSums);
  // Over other axes, with other attributes, no start, in a group already.
  Program joined =
      ASYRA_VALUE(JoinCollectives(program, {{1, 5, 9, 0, 3}, {3, 5}}));
  EXPECT_EQ(ToString(joined),
            ToString(ASYRA_VALUE(JoinCollectives(program, {{1, 3}}))));
  EXPECT_EQ(ToString(ASYRA_VALUE(JoinCollectives(program, {}))),
            ToString(program));
}

TEST(JoinCollectives, WhatWaitsForEachOtherIsRefused) {
  Program program = ParseVerified(kSums);
  EXPECT_THAT(JoinCollectives(program, {{1, 8}}).status().ToString(),
              HasSubstr("joining these collectives makes a cycle"));
  EXPECT_TRUE(JoinCollectives(program, {{3, 8}}).ok());
}

TEST(JoinCandidates, AreIndependentAndIdentical) {
  std::vector<JoinCandidate> found = JoinCandidates(ParseVerified(kSums));
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].name, "all_reduce of y and z");
  EXPECT_THAT(found[0].groups, testing::ElementsAre(JoinGroup{1, 3}));
}

// q, k and v of each layer, whatever else may be joined.
TEST(JoinCandidates, AreWhatAttentionReads) {
  Program program = *BuiltinModel("llama3-8b", {{"batch", 2}, {"seq", 4096}});
  program.mesh = *Mesh::Create({{"sp", 4}});
  CostModel costs = Costs(program);
  PassContext context;
  context.costs = &costs;
  ASYRA_CHECK_OK(RunPasses(program, ShardPasses(), context));
  ASYRA_CHECK_OK(RunPasses(program, "start_collectives", context));
  bool found = false;
  for (const JoinCandidate& candidate : JoinCandidates(program)) {
    if (!candidate.name.starts_with("all_to_all of ")) continue;
    found |= candidate.groups.size() == 32 && candidate.groups[0].size() == 3;
  }
  EXPECT_TRUE(found);
}

TEST(JoinCandidates, AreNotLarge) {
  // Two of 48 MiB are one of 96.
  EXPECT_TRUE(JoinCandidates(ParseVerified(R"(asyra 1 scheduled
mesh (tp=2)
program @f(%a: f32[12582912@tp], %b: f32[12582912@tp])
    -> (f32[12582912], f32[12582912]) {
  %f = start all_gather(%a) {dim=0, axes=tp} on tp : future f32[12582912]
  %g = start all_gather(%b) {dim=0, axes=tp} on tp : future f32[12582912]
  %y = wait(%f) on c : f32[12582912]
  %z = wait(%g) on c : f32[12582912]
  return %y, %z
}
)"))
                  .empty());
}

class RandomJoins : public testing::TestWithParam<int> {};

TEST_P(RandomJoins, MeanTheSame) {
  Program program = RunnableProgram(GetParam(), 60);
  std::vector<BucketCandidate> candidates = BucketCandidates(program);
  TileMerger merger(program);
  std::vector<int> all;
  for (size_t c = 0; c < candidates.size(); ++c) {
    EXPECT_TRUE(candidates[c].join);
    all.push_back(static_cast<int>(c));
    int one = static_cast<int>(c);
    Program joined =
        ASYRA_VALUE(MergeCandidates(merger, candidates, {&one, 1}));
    EXPECT_LT(joined.ops.size(), program.ops.size());
    ExpectSameMeaning(program, joined);
  }
  // Those of several communicators may wait for each other.
  absl::StatusOr<Program> joined = MergeCandidates(merger, candidates, all);
  if (joined.ok()) ExpectSameMeaning(program, *joined);
}

TEST_P(RandomJoins, AreNeverWorseAndKeepToTheBudget) {
  Program program = RunnableProgram(GetParam(), 60);
  CostModel costs = Costs(program);
  SimResult before = Simulate(program, costs);
  for (int64_t budget : {int64_t{0}, before.peak_bytes}) {
    BucketResult result =
        ASYRA_VALUE(BucketTiles(program, costs, {.memory_bytes = budget}));
    SimResult after = Simulate(result.program, costs);
    EXPECT_LE(after.makespan_us, before.makespan_us);
    EXPECT_EQ(after.makespan_us, result.found.makespan_us);
    if (budget > 0) {
      EXPECT_LE(after.peak_bytes, budget);
    }
    EXPECT_EQ(result.changed(), !result.joined.empty());
    ExpectSameMeaning(program, result.program);
  }
}

// A step of data parallel training: two matmuls a layer, the gradients of
// whose weights are summed over dp on the way back.
Program Training(std::string_view dtype, int layers, int width, int batch) {
  std::string x = fmt::format("{}[{}@dp, {}]", dtype, batch, width);
  std::string h = fmt::format("{}[{}@dp, {}]", dtype, batch, 4 * width);
  std::string up = fmt::format("{}[{}, {}]", dtype, width, 4 * width);
  std::string down = fmt::format("{}[{}, {}]", dtype, 4 * width, width);
  std::string inputs = fmt::format("%y0: {0}, %t: {0}", x);
  std::string types, forward, back, update, outputs;
  for (int l = 0; l < layers; ++l) {
    inputs += fmt::format(", %u{0}: {1} state, %d{0}: {2} state", l, up, down);
    types += fmt::format("{}{}, {}", l > 0 ? ", " : "", up, down);
    forward += fmt::format(
        "  %h{0} = matmul(%y{0}, %u{0}) : {2}\n"
        "  %a{0} = relu(%h{0}) : {2}\n"
        "  %o{0} = matmul(%a{0}, %d{0}) : {3}\n"
        "  %y{1} = add(%o{0}, %y{0}) : {3}\n",
        l, l + 1, h, x);
    back = fmt::format(
               "  %dp{0} = matmul(%a{0}, %g{1}) {{transpose_a=true}} : {5} "
               "partial(dp)\n"
               "  %ds{0} = all_reduce(%dp{0}) {{axes=dp}} : {5}\n"
               "  %ga{0} = matmul(%g{1}, %d{0}) {{transpose_b=true}} : {2}\n"
               "  %gu{0} = mul(%ga{0}, %a{0}) : {2}\n"
               "  %up{0} = matmul(%y{0}, %gu{0}) {{transpose_a=true}} : {4} "
               "partial(dp)\n"
               "  %us{0} = all_reduce(%up{0}) {{axes=dp}} : {4}\n"
               "  %gx{0} = matmul(%gu{0}, %u{0}) {{transpose_b=true}} : {3}\n"
               "  %g{0} = add(%gx{0}, %g{1}) : {3}\n",
               l, l + 1, h, x, up, down) +
           back;
    update += fmt::format(
        "  %un{0} = sub(%u{0}, %us{0}) : {1}\n"
        "  %dn{0} = sub(%d{0}, %ds{0}) : {2}\n",
        l, up, down);
    outputs += fmt::format("{1}%un{0} alias %u{0}, %dn{0} alias %d{0}", l,
                           l > 0 ? ", " : "");
  }
  return ParseVerified(fmt::format(
      "asyra 1 local\nmesh (dp=4)\nprogram @train({}) -> ({}) {{\n{}"
      "  %g{} = sub(%y{}, %t) : {}\n{}{}  return {}\n}}\n",
      inputs, types, forward, layers, layers, x, back, update, outputs));
}

ScheduleResult Scheduled(const Program& program, bool join,
                         std::string_view machine = "h200x8") {
  CostModel costs(*LoadMachine(machine), program.mesh);
  PassContext context;
  context.costs = &costs;
  return ASYRA_VALUE(
      Schedule(program, {.join = join, .search_steps = 400}, context));
}

int Collectives(const Program& program) {
  return static_cast<int>(absl::c_count_if(
      program.ops, [](const Op& op) { return op.is_collective(); }));
}

TEST(ScheduledJoins, SumGradientsInBuckets) {
  Program program = Training("bf16", 8, 512, 4096);
  ScheduleResult apart = Scheduled(program, false);
  ScheduleResult joined = Scheduled(program, true);
  EXPECT_EQ(Collectives(apart.program), 16);
  EXPECT_LE(Collectives(joined.program), 8);
  EXPECT_LT(joined.optimized.makespan_us, 0.9 * apart.optimized.makespan_us);
  program = Training("f32", 3, 4, 8);
  joined = Scheduled(program, true);
  EXPECT_LT(Collectives(joined.program), 6);
  ExpectSameMeaning(program, joined.program);
}

// What is searched without joins is searched with them as well, and streams are
// assigned before it is decided.
TEST(ScheduledJoins, AreNeverWorse) {
  for (const auto& axes : std::vector<std::vector<Mesh::Axis>>{
           {{"sp", 4}}, {{"dp", 2}, {"sp", 2}}, {{"sp", 2}, {"tp", 4}}}) {
    for (int64_t seq : {128, 2048}) {
      Program program = *BuiltinModel(
          "llama3-8b",
          {{"layers", kSanitized ? 2 : 4}, {"batch", 2}, {"seq", seq}});
      program.mesh = *Mesh::Create(axes);
      CostModel costs(*LoadMachine("a800x8"), program.mesh);
      PassContext context;
      context.costs = &costs;
      ASYRA_CHECK_OK(RunPasses(program, ShardPasses(), context));
      double apart_us = 0;
      for (bool join : {false, true}) {
        Program scheduled = Scheduled(program, join, "a800x8").program;
        ASYRA_CHECK_OK(RunPasses(scheduled, "assign_streams", context));
        double us = Simulate(scheduled, costs).makespan_us;
        if (!join) apart_us = us;
        EXPECT_LE(us, apart_us) << ToString(program.mesh) << " " << seq;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomJoins, testing::Range(0, 24));

}  // namespace
}  // namespace asyra
