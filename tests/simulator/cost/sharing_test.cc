#include "simulator/cost/sharing.h"

#include <random>

#include "gmock/gmock.h"

namespace asyra {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

OpCost Compute(double sms, double hbm) {
  return {.time_us = 1, .is_compute = true, .load = {sms, hbm}};
}

std::vector<double> Share(std::vector<OpCost> ops) {
  std::vector<ActiveOp> active;
  for (const OpCost& op : ops) active.push_back({&op});
  std::vector<double> speeds;
  ShareResources(active, &speeds);
  return speeds;
}

TEST(Sharing, WhatFitsRunsAtFullSpeed) {
  EXPECT_THAT(Share({Compute(1, 1)}), ElementsAre(1));
  EXPECT_THAT(Share({Compute(0.7, 0.2), Compute(0.3, 0.8)}), ElementsAre(1, 1));
}

TEST(Sharing, AFullResourceIsSharedInProportion) {
  EXPECT_THAT(Share({Compute(1, 0), Compute(1, 0)}),
              ElementsAre(DoubleEq(0.5), DoubleEq(0.5)));
  EXPECT_THAT(Share({Compute(1, 0), Compute(0.6, 0)}),
              ElementsAre(DoubleEq(0.625), DoubleEq(0.625)));
}

// The first two stop where memory is full; the third rises on until the SMs
// are.
TEST(Sharing, OpsThatDoNotUseTheFullResourceRiseOn) {
  EXPECT_THAT(Share({Compute(0.2, 1), Compute(0.2, 1), Compute(1, 0)}),
              ElementsAre(DoubleEq(0.5), DoubleEq(0.5), DoubleEq(0.8)));
}

TEST(Sharing, LaterKernelsGetThePlacesThatEarlierOnesLeave) {
  auto kernel = [](double slots) {
    OpCost cost = Compute(0.3, 0.4);
    cost.load[kCtaSlots] = slots;
    return cost;
  };
  EXPECT_THAT(Share({kernel(1), kernel(1)}), ElementsAre(1, 0));
  EXPECT_THAT(Share({kernel(0.75), kernel(0.5), kernel(0.1)}),
              ElementsAre(1, 0.5, 0));
  // Blocks that are placed share the memory.
  OpCost half = Compute(0, 1);
  half.load[kCtaSlots] = 0.5;
  EXPECT_THAT(Share({half, half}), ElementsAre(0.5, 0.5));
  half.load[kCtaSlots] = 0.8;  // a quarter of the second one's
  EXPECT_THAT(Share({half, half}), ElementsAre(DoubleEq(0.8), DoubleEq(0.2)));
}

TEST(Sharing, CollectivesYieldToComputationThatFillsTheSms) {
  OpCost collective = {.time_us = 1, .beside_compute = 0.6};
  EXPECT_THAT(Share({Compute(1, 0), collective}), ElementsAre(1, 0.6));
  EXPECT_THAT(Share({Compute(0.5, 0), collective}), ElementsAre(1, 0.8));
  EXPECT_THAT(Share({collective, collective}), ElementsAre(1, 1));
}

TEST(Sharing, CollectivesWaitForMatmulsWhoseBlocksStay) {
  OpCost matmul = Compute(1, 0);
  matmul.load[kCtaSlots] = 1;
  matmul.waves = 4;
  matmul.persistent = true;
  OpCost collective = {.time_us = 1, .held_sms = 0.2, .required_sms = 0.2};
  EXPECT_THAT(Share({matmul, collective}), ElementsAre(1, 0));
  EXPECT_THAT(Share({collective, matmul}), ElementsAre(1, 0.8));
  matmul.load[kCtaSlots] = 0.5;  // there is room beside it
  EXPECT_THAT(Share({matmul, collective}), ElementsAre(0.8, 1));
  matmul.load[kCtaSlots] = 1;
  // Without a kernel there is nothing to wait with, and nothing to hold SMs.
  std::vector<double> speeds;
  ShareResources(std::vector<ActiveOp>{{&matmul}, {&collective, false}},
                 &speeds);
  EXPECT_THAT(speeds, ElementsAre(1, 1));
  matmul.persistent = false;
  EXPECT_THAT(Share({matmul, collective}), ElementsAre(0.8, 1));
}

// The kernel of a sum takes all SMs before what comes next, and beside what
// stays only the others.
TEST(Sharing, SumsHoldTheSmsThatAreLeft) {
  OpCost matmul = Compute(0.5, 0);
  matmul.load[kCtaSlots] = 0.5;
  matmul.persistent = true;
  OpCost sum = {.time_us = 1, .held_sms = 1, .required_sms = 0.4};
  std::vector<double> before = Share({matmul, sum});
  std::vector<double> behind = Share({sum, matmul});
  EXPECT_EQ(before[0], 1);  // it needs no more than half of them
  EXPECT_LT(behind[1], 0.25);
}

TEST(Sharing, CollectivesFindTheSmMarginOfMatmuls) {
  OpCost matmul = Compute(0.75, 0);
  matmul.load[kCtaSlots] = 0.75;
  matmul.waves = 4;
  matmul.persistent = true;
  matmul.sm_margin = 0.25;
  OpCost small = {.time_us = 1,
                  .held_sms = 0.125,
                  .required_sms = 0.125,
                  .beside_compute = 0.5};
  // Neither waits for the other; half of what else it takes is left.
  double kept = 1 - 0.5 * 0.75 * 0.5;
  EXPECT_THAT(Share({matmul, small}), ElementsAre(1, kept));
  EXPECT_THAT(Share({matmul, small, small}), ElementsAre(1, kept, kept));
  EXPECT_THAT(Share({matmul, small, small, small}),
              ElementsAre(1, kept, kept, 0));
  OpCost large = {.time_us = 1, .held_sms = 0.5, .required_sms = 0.5};
  EXPECT_THAT(Share({matmul, large}), ElementsAre(1, 0));
  EXPECT_GT(Share({large, matmul})[1], Share({large, Compute(1, 0)})[1]);
}

// Loads whose sums do not come out even: what is left of a full resource may
// be less than nothing by rounding.
TEST(Sharing, SpeedsOfRandomOpsAreInBounds) {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<OpCost> ops(2 + random() % 4);
    for (OpCost& op : ops) {
      op.is_compute = random() % 2 == 0;
      op.held_sms = op.is_compute ? 0 : 0.15;
      for (double& load : op.load) {
        load = random() % 3 == 0 ? 0 : 0.1 * (1 + random() % 10);
      }
      // Half of the time all find a place, if a small one.
      if (round % 2 == 0) op.load[kCtaSlots] *= 0.1;
    }
    std::vector<double> speeds = Share(ops);
    ASSERT_GT(speeds[0], 0) << "round " << round;
    for (double speed : speeds) {
      ASSERT_GE(speed, 0) << "round " << round;
      if (round % 2 == 0) {
        ASSERT_GT(speed, 0) << "round " << round;
      }
      ASSERT_LE(speed, 1) << "round " << round;
    }
  }
}

// Whole waves count for 0.6, proportion for the rest.
TEST(Sharing, MatmulsSlowDownByWaves) {
  EXPECT_DOUBLE_EQ(SlowdownOn(1, 3.5), 1);
  EXPECT_DOUBLE_EQ(SlowdownOn(0.8, 0), 1.25);
  EXPECT_DOUBLE_EQ(SlowdownOn(0.8, 1.6), 0.6 * 1 + 0.4 * 1.25);
  EXPECT_DOUBLE_EQ(SlowdownOn(0.8, 2), 0.6 * 1.5 + 0.4 * 1.25);
  EXPECT_DOUBLE_EQ(SlowdownOn(0.5, 1), 2);
  // The anchor of the weight: 132 tiles beside 24 CTAs.
  EXPECT_NEAR(SlowdownOn(108 / 132.0, 1), 1.70, 0.02);
}

TEST(Sharing, CollectivesHoldTheirSms) {
  OpCost collective = {.time_us = 1, .sms = 20, .held_sms = 0.2};
  EXPECT_THAT(Share({Compute(1, 0), collective}), ElementsAre(0.8, 1));
  // What uses half of the SMs does not miss a fifth.
  EXPECT_THAT(Share({Compute(0.5, 0), collective}), ElementsAre(1, 1));
  OpCost matmul = Compute(1, 0);
  matmul.waves = 2;
  EXPECT_THAT(Share({matmul, collective}), ElementsAre(DoubleEq(1 / 1.4), 1));
}

// Any ops beside each other, more than are kept too, asked for twice.
TEST(Sharing, KeptSpeedsAreThoseOfTheSameOps) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<double> unit(0, 1);
  std::vector<OpCost> costs;
  for (int i = 0; i < 12; ++i) {
    OpCost cost = Compute(unit(random), unit(random));
    cost.load[kCtaSlots] = unit(random);
    cost.waves = 4 * unit(random);
    cost.is_compute = i % 3 != 0;
    cost.beside_compute = unit(random);
    cost.held_sms = cost.is_compute ? 0 : 0.2 * unit(random);
    costs.push_back(cost);
    cost.time_us = 5;  // is of no influence
    costs.push_back(cost);
  }
  SharedSpeeds kept(costs);
  int most = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<ActiveOp> active;
    std::vector<SharedSpeeds::Active> same;
    auto count = static_cast<int>(6 * unit(random));
    most = std::max(most, count);
    for (int i = 0; i < count; ++i) {
      int op =
          static_cast<int>(static_cast<double>(costs.size()) * unit(random));
      bool has_kernel = unit(random) < 0.8;
      active.push_back({&costs[op], has_kernel});
      same.push_back({op, has_kernel});
    }
    std::vector<double> speeds, found;
    ShareResources(active, &speeds);
    kept.Find(same, &found);
    ASSERT_EQ(found, speeds) << "seed " << kSeed << ", trial " << trial;
  }
  EXPECT_EQ(most, 5);
}

}  // namespace
}  // namespace asyra
