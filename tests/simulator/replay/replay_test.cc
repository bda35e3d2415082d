#include <algorithm>
#include <numeric>

#include "gmock/gmock.h"
#include "simulator/replay/replayer.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

// On the test machine `neg` of f32[500] takes 4 us, an all_reduce of it over
// two devices 12 us.
SimResult SimulateText(std::string_view text,
                       const ReplayOptions& options = {}) {
  Program program = Parse(text);
  return Simulate(program, CostModel(TestMachine(), program.mesh), options);
}

const ReplayOptions kAlone = {.contention = false};

TEST(Replay, ChainIsTheSumOfItsOps) {
  SimResult result = SimulateText(R"(asyra 1 local
program @f(%x: f32[500]) -> (f32[500]) {
  %a = neg(%x) : f32[500]
  %b = neg(%a) : f32[500]
  %c = neg(%b) : f32[500]
  return %c
})");
  EXPECT_DOUBLE_EQ(result.makespan_us, 12);
  EXPECT_DOUBLE_EQ(result.compute_us, 12);
  EXPECT_DOUBLE_EQ(result.lower_bound_us, 12);
  EXPECT_DOUBLE_EQ(result.bubble, 0);
  EXPECT_EQ(result.ops, 3);
  EXPECT_EQ(result.spans[2].start_us, 8);
}

TEST(Replay, LocalCollectivesBlock) {
  SimResult result = SimulateText(R"(asyra 1 local
mesh (tp=2)
program @f(%x: f32[500] partial(tp), %y: f32[500]) -> (f32[500], f32[500]) {
  %r = all_reduce(%x) {axes=tp} : f32[500]
  %a = neg(%y) : f32[500]
  return %r, %a
})");
  EXPECT_DOUBLE_EQ(result.makespan_us, 16);
  EXPECT_DOUBLE_EQ(result.exposed_comm_us, 12);
  EXPECT_DOUBLE_EQ(result.bubble, 0.75);
  EXPECT_DOUBLE_EQ(result.lower_bound_us, 12);
  EXPECT_EQ(result.collectives, 1);
}

// One collective beside `count` ops of 4 us, then an op that reads it.
std::string Overlap(int count) {
  std::string text = R"(asyra 1 scheduled
mesh (tp=2)
program @f(%x: f32[500] partial(tp), %y: f32[500]) -> (f32[500], f32[500]) {
  %f = start all_reduce(%x) {axes=tp} on comm : future f32[500]
  %a0 = neg(%y) on compute : f32[500]
)";
  for (int i = 1; i < count; ++i) {
    text += fmt::format("  %a{} = neg(%a{}) on compute : f32[500]\n", i, i - 1);
  }
  return text + fmt::format(R"(  %r = wait(%f) on compute : f32[500]
  %b = neg(%r) on compute : f32[500]
  return %a{}, %b
}})",
                            count - 1);
}

TEST(Replay, PartlyHiddenCollectiveExposesTheRest) {
  SimResult result = SimulateText(Overlap(2), kAlone);
  EXPECT_DOUBLE_EQ(result.makespan_us, 12 + 4);
  EXPECT_DOUBLE_EQ(result.comm_us, 12);
  EXPECT_DOUBLE_EQ(result.exposed_comm_us, 4);
  ASSERT_EQ(result.exposed.size(), 1u);
  EXPECT_DOUBLE_EQ(result.exposed[0].exposed_us, 4);
  EXPECT_DOUBLE_EQ(result.lower_bound_us, 16);
}

TEST(Replay, FullyHiddenCollectiveExposesNothing) {
  SimResult result = SimulateText(Overlap(4), kAlone);
  EXPECT_DOUBLE_EQ(result.makespan_us, 20);
  EXPECT_DOUBLE_EQ(result.exposed_comm_us, 0);
  EXPECT_DOUBLE_EQ(result.bubble, 0);
}

// neg keeps memory full and half the SMs busy; the all_reduce holds the other
// half and uses 2 * 2000 / 12000 of the memory. Together they want 4/3 of the
// memory, so both run at 3/4; the collective loses half of half on top. It
// ends with the fourth op.
TEST(Replay, ContentionSlowsBothSides) {
  Program program = Parse(Overlap(4));
  std::vector<OpCost> op_costs =
      EstimateCosts(program, CostModel(TestMachine(), program.mesh));
  for (OpCost& cost : op_costs) {
    if (cost.is_compute) cost.load[kSms] = 0.5;
  }
  SimResult result = Replay(program, op_costs);
  double collective_speed = 0.75 * 0.75;
  double hidden_us = 3 * 4 / 0.75;  // three ops beside the collective: 16 us
  double left_us = 12 - hidden_us * collective_speed;  // 3 us alone
  double fourth_us = left_us / collective_speed;  // the fourth op runs 16/3 us
  EXPECT_NEAR(result.spans[0].end_us, hidden_us + fourth_us, 1e-9);
  EXPECT_NEAR(result.makespan_us, hidden_us + fourth_us + 4, 1e-9);
  EXPECT_GE(result.makespan_us, result.lower_bound_us);
}

TEST(Replay, StreamsRunAtOnceAndShareMemory) {
  constexpr std::string_view kFork = R"(asyra 1 scheduled
program @f(%x: f32[500]) -> (f32[500]) {
  %a = neg(%x) on one : f32[500]
  %b = exp(%x) on two : f32[500]
  %c = add(%a, %b) on one after(%b) : f32[500]
  return %c
})";
  EXPECT_DOUBLE_EQ(SimulateText(kFork, kAlone).makespan_us, 4 + 6);
  EXPECT_DOUBLE_EQ(SimulateText(kFork).makespan_us, 8 + 6);
}

TEST(Replay, CommunicatorKeepsIssueOrderAcrossStreams) {
  SimResult result = SimulateText(R"(asyra 1 scheduled
mesh (dp=2, tp=2)
program @f(%x: f32[500] partial(tp), %y: f32[500] partial(dp)) ->
    (f32[500], f32[500], f32[500]) {
  %f = start all_reduce(%x) {axes=tp} on a : future f32[500]
  %g = start all_reduce(%x) {axes=tp} on b : future f32[500]
  %h = start all_reduce(%y) {axes=dp} on c : future f32[500]
  %u = wait(%f) on compute : f32[500]
  %v = wait(%g) on compute : f32[500]
  %w = wait(%h) on compute : f32[500]
  return %u, %v, %w
})",
                                  kAlone);
  EXPECT_DOUBLE_EQ(result.spans[0].end_us, 12);
  EXPECT_DOUBLE_EQ(result.spans[1].start_us, 12);
  EXPECT_DOUBLE_EQ(result.spans[2].end_us, 12);
  EXPECT_DOUBLE_EQ(result.makespan_us, 24);
  EXPECT_DOUBLE_EQ(result.lower_bound_us, 24);
  EXPECT_DOUBLE_EQ(result.exposed[0].exposed_us, 24);
  EXPECT_DOUBLE_EQ(result.exposed[1].exposed_us, 12);
}

TEST(Replay, NothingStartsBeforeItIsIssued) {
  Program program = Parse(Overlap(2));
  CostModel costs(
      *ParseMachine(Replaced(std::string(kTestMachine), "\"launch_us\": 0",
                             "\"launch_us\": 5"),
                    "test"),
      program.mesh);
  SimResult eager = Simulate(program, costs, kAlone);
  EXPECT_DOUBLE_EQ(eager.spans[0].start_us, 5);
  EXPECT_DOUBLE_EQ(eager.spans[1].start_us, 10);
  EXPECT_DOUBLE_EQ(eager.spans[2].start_us, 15);
  EXPECT_DOUBLE_EQ(eager.spans[4].start_us, 20);
  EXPECT_DOUBLE_EQ(eager.makespan_us, 24);
  SimResult graph =
      Simulate(program, costs, {.contention = false, .launch_scale = 0});
  EXPECT_DOUBLE_EQ(graph.makespan_us, 16);
}

TEST(Replay, SaysWhatEachOpWaitedFor) {
  SimResult result = SimulateText(Overlap(2), kAlone);
  // start, two negs, wait, neg
  EXPECT_EQ(result.spans[0].cause, OpSpan::kBegin);
  EXPECT_EQ(result.spans[2].cause, OpSpan::kData);
  EXPECT_EQ(result.spans[2].after, 1);
  EXPECT_EQ(result.spans[3].cause, OpSpan::kData);
  EXPECT_EQ(result.spans[3].after, 0);
  EXPECT_THAT(result.critical_path, testing::ElementsAre(0, 3, 4));
  ASSERT_EQ(result.op_costs.size(), 5u);
  EXPECT_EQ(result.op_costs[1].limit, OpCost::kMemory);
  EXPECT_EQ(result.op_costs[0].limit, OpCost::kLatency);
  EXPECT_DOUBLE_EQ(result.resource_us[kHbm], 3 * 4 + 4);
}

TEST(Replay, TheHostCanBeWhatAnOpWaitedFor) {
  Program program = Parse(Overlap(2));
  Machine machine = TestMachine();
  machine.launch_us = 5;
  SimResult result =
      Simulate(program, CostModel(machine, program.mesh), kAlone);
  EXPECT_EQ(result.spans[4].cause, OpSpan::kHost);
  EXPECT_THAT(result.critical_path, testing::ElementsAre(4));
}

TEST(Replay, EmptyProgramTakesNoTime) {
  SimResult result = SimulateText(R"(asyra 1 local
program @f(%x: f32[500]) -> (f32[500]) {
  return %x
})");
  EXPECT_EQ(result.makespan_us, 0);
  EXPECT_EQ(result.bubble, 0);
  EXPECT_EQ(result.peak_bytes, 2000);
}

// Whatever was replayed before: a run given up, another order.
TEST(Replay, ReplayerForgetsTheRunBefore) {
  Program program = Parse(Overlap(4));
  CostedProgram costed(program, CostModel(TestMachine(), program.mesh));
  std::vector<int> order(program.ops.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<int> late = order;
  // The wait comes first, and all that computes after it.
  std::rotate(late.begin() + 1, late.begin() + 5, late.begin() + 6);
  SharedSpeeds speeds(costed.op_costs());
  Replayer replayer(costed, &speeds);
  const ReplayOptions given_up = {.limit_us = 1};
  for (const auto& next : {order, late, order}) {
    SimResult expected = Replay(costed, next);
    const SimResult& result = replayer.Run(next, {});
    EXPECT_EQ(result.makespan_us, expected.makespan_us);
    EXPECT_EQ(result.exposed_comm_us, expected.exposed_comm_us);
    EXPECT_EQ(result.exposed[0].comm_us, expected.exposed[0].comm_us);
    for (size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(result.spans[i].start_us, expected.spans[i].start_us);
      EXPECT_EQ(result.spans[i].end_us, expected.spans[i].end_us);
      EXPECT_EQ(result.spans[i].after, expected.spans[i].after);
    }
    EXPECT_GT(replayer.Run(next, given_up).makespan_us, 1);
  }
  EXPECT_GT(Replay(costed, late).makespan_us,
            Replay(costed, order).makespan_us);
}

}  // namespace
}  // namespace asyra
