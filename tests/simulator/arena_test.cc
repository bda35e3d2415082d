#include "simulator/arena.h"

#include <algorithm>
#include <limits>
#include <random>

#include "gmock/gmock.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;

// Whether any two that live at once share bytes.
void ExpectDisjoint(const std::vector<Lifetime>& lives, const ArenaPlan& plan) {
  for (size_t a = 0; a < lives.size(); ++a) {
    EXPECT_LE(plan.offsets[a] + lives[a].bytes, plan.bytes);
    for (size_t b = a + 1; b < lives.size(); ++b) {
      bool in_time =
          lives[a].from < lives[b].until && lives[b].from < lives[a].until;
      bool in_space = plan.offsets[a] < plan.offsets[b] + lives[b].bytes &&
                      plan.offsets[b] < plan.offsets[a] + lives[a].bytes;
      EXPECT_FALSE(in_time && in_space && lives[a].bytes && lives[b].bytes)
          << a << " and " << b;
    }
  }
}

TEST(Arena, ReusesBytesOnceTheyAreFree) {
  ArenaPlan plan = PlanArena({{100, 0, 1}, {100, 1, 2}, {100, 1, 3}}, 1);
  EXPECT_EQ(plan.bytes, 200);
  ExpectDisjoint({{100, 0, 1}, {100, 1, 2}, {100, 1, 3}}, plan);
}

TEST(Arena, AlignsEveryOffset) {
  ArenaPlan plan = PlanArena({{1, 0, 2}, {513, 0, 2}, {0, 0, 2}}, 512);
  EXPECT_EQ(plan.bytes, 3 * 512);
  for (int64_t offset : plan.offsets) EXPECT_EQ(offset % 512, 0);
}

// First come first placed leaves a hole of 2 that the 3 does not fit; largest
// first needs no more than what lives at once.
TEST(Arena, KeepsTheBestOfSeveralOrders) {
  std::vector<Lifetime> lives = {{1, 0, 2}, {2, 0, 1}, {1, 0, 3}, {3, 1, 3}};
  ArenaPlan plan = PlanArena(lives, 1);
  ExpectDisjoint(lives, plan);
  EXPECT_EQ(plan.bytes, 5);
}

TEST(Arena, WhatLivesThroughoutLiesAtTheBottom) {
  constexpr double kEnd = std::numeric_limits<double>::infinity();
  std::vector<Lifetime> lives = {
      {9, 1, 3}, {1, 0, kEnd}, {7, 0, 2}, {0, 0, kEnd}, {2, 0, kEnd}};
  ArenaPlan plan = PlanArena(lives, 4);
  ExpectDisjoint(lives, plan);
  EXPECT_EQ(plan.offsets[1], 0);
  EXPECT_EQ(plan.offsets[4], 4);
  EXPECT_EQ(plan.bytes, 4 + 4 + 12 + 8);
}

TEST(Arena, NothingNeedsNothing) {
  EXPECT_EQ(PlanArena({}, 512).bytes, 0);
  EXPECT_THAT(PlanArena({{0, 0, 1}}, 512).offsets, ElementsAre(0));
}

TEST(Arena, RandomLifetimesNeverOverlapAndStayNearTheirPeak) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<Lifetime> lives;
    std::vector<int64_t> live(400, 0);
    for (int i = 0; i < 300; ++i) {
      int from = static_cast<int>(random() % 390);
      int until = from + 1 + static_cast<int>(random() % 10);
      int64_t bytes = static_cast<int64_t>(random() % 64) * 512;
      lives.push_back({bytes, double(from), double(until)});
      for (int t = from; t < until; ++t) live[t] += bytes;
    }
    ArenaPlan plan = PlanArena(lives, 512);
    ExpectDisjoint(lives, plan);
    int64_t peak = *std::max_element(live.begin(), live.end());
    EXPECT_GE(plan.bytes, peak);
    EXPECT_LE(plan.bytes, peak + peak / 3);
    EXPECT_EQ(plan.offsets, PlanArena(lives, 512).offsets);
  }
}

}  // namespace
}  // namespace asyra
