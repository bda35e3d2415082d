// Orders of issue: legal, within the budget, near the best there is.
#include "passes/schedule/order/order_search.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "gtest/gtest.h"
#include "ir/parser.h"
#include "passes/schedule/order/cost_noise.h"
#include "passes/schedule/order/list_scheduler.h"
#include "passes/schedule/order/reorder.h"
#include "tests/simulator/replay/random_program.h"
#include "tests/support/costs.h"
#include "tests/support/exact.h"

namespace asyra {
namespace {

Program Random(uint32_t seed, int steps, int streams) {
  absl::StatusOr<Program> program =
      ParseProgram(RandomProgram(seed, steps, streams).text());
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

std::vector<int> InOrder(const Program& program) {
  std::vector<int> order(program.ops.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(ListScheduler, OrdersAreLegal) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Program program = Random(seed, 30, 1 + static_cast<int>(seed % 2));
    CostedProgram costed(program, Costs(program));
    ListOptions options;
    options.lookahead_us = seed % 3 == 0 ? 5 : 0;
    options.memory_bytes = seed % 5 == 0 ? 4000 : 0;
    std::vector<int> order = ListScheduler(costed).Run(options);
    std::vector<int> place(order.size(), -1);
    for (size_t i = 0; i < order.size(); ++i) {
      place[order[i]] = static_cast<int>(i);
    }
    for (int op = 0; op < static_cast<int>(order.size()); ++op) {
      ASSERT_GE(place[op], 0);
      for (int earlier : costed.dependencies().DataOf(op)) {
        EXPECT_LT(place[earlier], place[op]);
      }
    }
  }
}

// A reader of the old state comes before what replaces it, though nothing
// depends on it.
TEST(ListScheduler, StatesAreReadBeforeTheyAreReplaced) {
  absl::StatusOr<Program> program = ParseProgram(R"(asyra 1 scheduled

program @f(%s: f32[1000] state, %x: f32[1000]) -> (f32[1000], f32[1000]) {
  %old = exp(%s) on compute : f32[1000]
  %next = add(%s, %x) on compute : f32[1000]
  %a = exp(%next) on compute : f32[1000]
  %b = exp(%a) on compute : f32[1000]
  return %next alias %s, %old
}
)");
  ASSERT_TRUE(program.ok()) << program.status();
  CostedProgram costed(*program, Costs(*program));
  std::vector<int> order = ListScheduler(costed).Run();
  EXPECT_LT(std::find(order.begin(), order.end(), 0),
            std::find(order.begin(), order.end(), 1));
}

// Where nothing fits, the matmul that is the last to read a large gradient
// goes first: it makes more than the next op of the chain, but frees as much.
TEST(ListScheduler, WhatFreesItsOperandsIsNotPutOff) {
  absl::StatusOr<Program> program = ParseProgram(R"(asyra 1 scheduled

program @f(%x: f32[1000, 100], %u: f32[100, 100]) -> (f32[1000, 100], f32[50, 100], f32[50, 100]) {
  %g = exp(%x) on compute : f32[1000, 100]
  %m = slice(%g) {dim=0, start=0, stop=50} on compute : f32[50, 100]
  %m2 = exp(%m) on compute : f32[50, 100]
  %m3 = exp(%m2) on compute : f32[50, 100]
  %m4 = exp(%m3) on compute : f32[50, 100]
  %w = matmul(%g, %u) on compute : f32[1000, 100]
  return %w, %m, %m4
}
)");
  ASSERT_TRUE(program.ok()) << program.status();
  CostedProgram costed(*program, Costs(*program));
  std::vector<int> order = ListScheduler(costed).Run({.memory_bytes = 1});
  EXPECT_EQ(order, (std::vector<int>{0, 1, 5, 2, 3, 4}));
}

TEST(OrderSearch, IsNearTheBestOfSmallPrograms) {
  double sum = 0, worst = 0, in_order = 0;
  int programs = 0;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    Program program = Random(seed, 14, 1 + static_cast<int>(seed % 2));
    if (program.ops.size() > 25) continue;  // which takes too long to solve
    ++programs;
    CostedProgram costed(program, Costs(program));
    OrderSearchOptions options{.steps = 300};
    options.replay.contention = false;
    options.replay.launch_scale = 0;
    double found = SearchOrder(costed, {{"serial", InOrder(program)}}, options)
                       .makespan_us;
    double best = SolveExactly(costed).makespan_us;
    in_order +=
        Replay(costed, InOrder(program), options.replay).makespan_us / best - 1;
    ASSERT_GE(found, best * (1 - 1e-9)) << "seed " << seed;
    sum += found / best - 1;
    worst = std::max(worst, found / best - 1);
  }
  RecordProperty("programs", programs);
  RecordProperty("in_order_percent", std::to_string(100 * in_order / programs));
  RecordProperty("mean_percent", std::to_string(100 * sum / programs));
  RecordProperty("worst_percent", std::to_string(100 * worst));
  EXPECT_GE(programs, 30);
  EXPECT_GE(in_order / programs, 0.01) << "there is nothing to be found";
  EXPECT_LE(sum / programs, 0.005);
  EXPECT_LE(worst, 0.05);
}

TEST(OrderSearch, IsNeverWorseThanItsSeedsNorOverTheBudget) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Program program = Random(seed, 40, 1);
    CostedProgram costed(program, Costs(program));
    SimResult serial = Replay(costed);
    OrderSearchOptions options{.steps = 60};
    options.memory_bytes = serial.peak_bytes;
    OrderSearchResult found =
        SearchOrder(costed, {{"serial", InOrder(program)}}, options);
    EXPECT_TRUE(found.fits);
    EXPECT_LE(found.makespan_us, serial.makespan_us);
    SimResult again = Replay(costed, found.best.order);
    EXPECT_EQ(again.makespan_us, found.makespan_us);
    EXPECT_EQ(again.peak_bytes, found.peak_bytes);
    EXPECT_LE(again.peak_bytes, options.memory_bytes);
    EXPECT_EQ(found.best.order,
              SearchOrder(costed, {{"serial", InOrder(program)}}, options)
                  .best.order);
    options.memory_bytes = 1;
    found = SearchOrder(costed, {{"serial", InOrder(program)}}, options);
    EXPECT_FALSE(found.fits);
    EXPECT_EQ(found.peak_bytes, found.least_peak_bytes);
    EXPECT_LE(found.peak_bytes, serial.peak_bytes);
  }
}

TEST(CostNoise, IsTheSameForAllOpsOfAKindAndWithinBounds) {
  Program program = Random(3, 60, 1);
  std::vector<OpCost> op_costs = EstimateCosts(program, Costs(program));
  std::vector<OpCost> off = NoisyCosts(program, op_costs, 5);
  std::map<std::string_view, double> factors;
  bool changed = false;
  for (size_t i = 0; i < op_costs.size(); ++i) {
    if (op_costs[i].time_us == 0 || program.ops[i].is_collective()) continue;
    double factor = off[i].time_us / op_costs[i].time_us;
    EXPECT_NEAR(factor, 1, kCostNoise);
    changed |= factor != 1;
    auto [entry, added] = factors.emplace(program.ops[i].def->name, factor);
    EXPECT_NEAR(entry->second, factor, 1e-12);
  }
  EXPECT_TRUE(changed);
  EXPECT_GT(factors.size(), 1);
}

}  // namespace
}  // namespace asyra
