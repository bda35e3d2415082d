#include "simulator/replay/exposure.h"

#include <numeric>

#include "gmock/gmock.h"
#include "tests/simulator/replay/random_program.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

// On the test machine an all_reduce of f32[50000] over two devices takes 210 us
// and `neg` of it 400; of f32[500] 12 and 4, of the 12 10 are latency.
std::vector<ExposedCollective> Explain(std::string_view text,
                                       const ExposureOptions& options = {},
                                       Machine machine = TestMachine()) {
  Program program = Parse(text);
  CostModel costs(std::move(machine), program.mesh);
  SimResult result = Simulate(program, costs, {.contention = false});
  return ExplainExposure(program, result, options);
}

double Share(const ExposedCollective& collective, Exposure why) {
  return collective.by_us[static_cast<int>(why)];
}

constexpr std::string_view kChain = R"(asyra 1 scheduled
mesh (tp=2)
program @f(%x: f32[50000] partial(tp)) -> (f32[50000]) {
  %f = start all_reduce(%x) {axes=tp} on comm : future f32[50000]
  %r = wait(%f) on compute : f32[50000]
  %a = neg(%r) on compute : f32[50000]
  return %a
})";

TEST(Exposure, NothingToRunIsDependence) {
  auto exposed = Explain(kChain);
  ASSERT_EQ(exposed.size(), 1u);
  EXPECT_EQ(exposed[0].op, 0);
  EXPECT_DOUBLE_EQ(exposed[0].us, 210);
  EXPECT_EQ(exposed[0].reason(), Exposure::kDependence);
  EXPECT_DOUBLE_EQ(Share(exposed[0], Exposure::kDependence), 210);
}

TEST(Exposure, WhatIsMostlyLatencyIsTooSmall) {
  std::string text(kChain);
  for (size_t at; (at = text.find("50000")) != text.npos;) {
    text.replace(at, 5, "500");
  }
  auto exposed = Explain(text);
  ASSERT_EQ(exposed.size(), 1u);
  EXPECT_DOUBLE_EQ(Share(exposed[0], Exposure::kSmall), 12);
}

// 160 of the 210 us are there once the independent 50 us have run.
constexpr std::string_view kBehindAWait = R"(asyra 1 scheduled
mesh (tp=2)
program @f(%x: f32[50000] partial(tp), %y: f32[6250])
    -> (f32[50000], f32[6250]) {
  %f = start all_reduce(%x) {axes=tp} on comm : future f32[50000]
  %b = neg(%y) on compute : f32[6250]
  %r = wait(%f) on compute : f32[50000]
  %a = neg(%r) on compute : f32[50000]
  %c = neg(%b) on compute : f32[6250]
  return %a, %c
})";

TEST(Exposure, IndependentWorkBehindAWaitIsOrder) {
  auto exposed = Explain(kBehindAWait);
  ASSERT_EQ(exposed.size(), 1u);
  EXPECT_DOUBLE_EQ(exposed[0].us, 160);
  EXPECT_DOUBLE_EQ(Share(exposed[0], Exposure::kOrder), 160);
}

// What is live then: x and what it becomes, y and its negation. 25,000 bytes
// more are what %c takes.
TEST(Exposure, IndependentWorkThatDoesNotFitIsMemory) {
  int64_t live = 2 * 200000 + 2 * 25000;
  auto fits = Explain(kBehindAWait, {.budget_bytes = live + 25000});
  EXPECT_EQ(fits.at(0).reason(), Exposure::kOrder);
  auto full = Explain(kBehindAWait, {.budget_bytes = live + 24999});
  EXPECT_EQ(full.at(0).reason(), Exposure::kMemory);
}

TEST(Exposure, AViewBehindAWaitIsNoDependence) {
  auto exposed = Explain(R"(asyra 1 scheduled
mesh (tp=2)
program @f(%x: f32[50000] partial(tp), %y: f32[2, 500])
    -> (f32[50000], f32[1, 500]) {
  %f = start all_reduce(%x) {axes=tp} on comm : future f32[50000]
  %r = wait(%f) on compute : f32[50000]
  %v = tile(%y) {dim=0, part=0, of=2} on compute : f32[1, 500]
  %c = neg(%v) on compute : f32[1, 500]
  return %r, %c
})");
  ASSERT_EQ(exposed.size(), 1u);
  EXPECT_EQ(exposed[0].reason(), Exposure::kOrder);
}

// Both have their data at 0; the second could have run beside the 40 us of
// computation, but for the first.
TEST(Exposure, QueueingBehindAnotherIsABusyCommunicator) {
  auto exposed = Explain(R"(asyra 1 scheduled
mesh (tp=2)
program @f(%x: f32[7500] partial(tp), %y: f32[50000] partial(tp), %z: f32[5000])
    -> (f32[7500], f32[50000], f32[5000]) {
  %f = start all_reduce(%x) {axes=tp} on comm : future f32[7500]
  %g = start all_reduce(%y) {axes=tp} on comm : future f32[50000]
  %b = neg(%z) on compute : f32[5000]
  %r = wait(%f) on compute : f32[7500]
  %s = wait(%g) on compute : f32[50000]
  return %r, %s, %b
})");
  ASSERT_EQ(exposed.size(), 1u);
  EXPECT_EQ(exposed[0].op, 1);
  EXPECT_DOUBLE_EQ(exposed[0].us, 210);
  EXPECT_DOUBLE_EQ(Share(exposed[0], Exposure::kCommunicator), 40);
  EXPECT_DOUBLE_EQ(Share(exposed[0], Exposure::kDependence), 170);
  EXPECT_EQ(exposed[0].reason(), Exposure::kDependence);
}

TEST(Exposure, WorkThatIsNotIssuedWaitsForTheHost) {
  Machine machine = TestMachine();
  machine.launch_us = 60;
  // The all_reduce runs from 60 on, the first neg is issued at 120.
  auto exposed = Explain(kBehindAWait, {}, machine);
  ASSERT_EQ(exposed.size(), 1u);
  EXPECT_DOUBLE_EQ(Share(exposed[0], Exposure::kHost), 60 + 70);
  EXPECT_DOUBLE_EQ(exposed[0].us, 160);
}

// Local collectives block; what comes after one could run beside it.
TEST(Exposure, OfALocalProgram) {
  auto exposed = Explain(R"(asyra 1 local
mesh (tp=2)
program @f(%x: f32[500] partial(tp), %y: f32[500]) -> (f32[500], f32[500]) {
  %r = all_reduce(%x) {axes=tp} : f32[500]
  %a = neg(%y) : f32[500]
  return %r, %a
})");
  ASSERT_EQ(exposed.size(), 1u);
  EXPECT_EQ(exposed[0].reason(), Exposure::kOrder);
}

TEST(Exposure, AddsUpToTheExposedTimeOfAnyProgram) {
  int exposed_programs = 0;
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Program program = Parse(RandomProgram(seed, 30, 2).text());
    SimResult result =
        Simulate(program, CostModel(TestMachine(), program.mesh));
    double total = 0;
    for (const ExposedCollective& collective :
         ExplainExposure(program, result)) {
      total += collective.us;
      EXPECT_GT(collective.us, 0);
      EXPECT_TRUE(program.ops[collective.op].is_collective());
      for (double us : collective.by_us) EXPECT_GE(us, 0);
      EXPECT_NEAR(std::accumulate(collective.by_us.begin(),
                                  collective.by_us.end(), 0.0),
                  collective.us, 1e-9);
    }
    EXPECT_NEAR(total, result.exposed_comm_us, 1e-6);
    exposed_programs += total > 0;
  }
  EXPECT_GT(exposed_programs, 100);
}

}  // namespace
}  // namespace asyra
