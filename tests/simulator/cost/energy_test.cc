#include "simulator/cost/energy.h"

#include "gmock/gmock.h"
#include "simulator/cost/load_machine.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

Machine PoweredMachine() {
  Machine machine = TestMachine();
  machine.gpu.power = RoundPower();
  return machine;
}

TEST(Energy, IsThatOfFlopsAndBytes) {
  Machine machine = PoweredMachine();
  // 2 x 100^3 flops of 2 pJ, 3 x 20000 bytes of 50 pJ.
  OpCost matmul = CostOf({"matmul(bf16[100,100], bf16[100,100])"}, machine);
  EXPECT_NEAR(matmul.energy.math_uj, 4, 1e-9);
  EXPECT_NEAR(matmul.energy.bytes_uj, 3, 1e-9);
  // One flop of 4 pJ for each of 10^6 elements, read and written.
  OpCost neg = CostOf({"neg(f32[1000,1000])"}, machine);
  EXPECT_NEAR(neg.energy.math_uj, 4, 1e-9);
  EXPECT_NEAR(neg.energy.bytes_uj, 400, 1e-9);
  // A rank of four sends three quarters.
  OpCost gather =
      CostOf({"all_gather(f32[1000@x]) {dim=0, axes=x}", 4}, machine);
  EXPECT_NEAR(gather.energy.bytes_uj, 0.75 * 4000 * 300e-6, 1e-9);
  EXPECT_EQ(gather.energy.math_uj, 0);
  machine.gpu.power.reset();
  OpCost unknown = CostOf({"neg(f32[1000,1000])"}, machine);
  EXPECT_EQ(unknown.energy.math_uj + unknown.energy.bytes_uj, 0);
}

TEST(Energy, OnlyArithmeticFollowsTheClock) {
  GpuPower power = RoundPower();
  // 0.8 of the time at 1000 MHz takes half as long at 2000.
  EXPECT_DOUBLE_EQ(MathFactor(power, 2000), 0.6);
  EXPECT_DOUBLE_EQ(MathFactor(power, 1000), 1);
  EXPECT_DOUBLE_EQ(MathFactor(power, 500), 1.8);
  OpCost math = {.time_us = 110, .math_us = 100, .memory_us = 70};
  math.load[kHbm] = 0.5;
  math.load[kSms] = 0.9;
  OpCost slow = math, fast = math, memory = math;
  SetClock(power, 500, &slow);
  EXPECT_DOUBLE_EQ(slow.time_us, 190);
  EXPECT_DOUBLE_EQ(slow.load[kHbm], 0.5 * 110 / 190);
  EXPECT_DOUBLE_EQ(slow.load[kSms], 0.9);
  // Memory limits it from there on.
  SetClock(power, 2000, &fast);
  EXPECT_DOUBLE_EQ(fast.time_us, 80);
  memory.memory_us = 150;
  memory.time_us = 160;
  SetClock(power, 1000.0 / 1.5, &memory);  // arithmetic takes 140
  EXPECT_DOUBLE_EQ(memory.time_us, 160);
}

TEST(Energy, PointsOfATableHoldAtTheirClocks) {
  Machine machine = PoweredMachine();
  machine.gpu.hbm_gbps = {1e5, 1e5};
  Measurement slow = {"matmul(bf16[1000,1000], bf16[1000,1000])", 1, 70, 500},
              old = {"matmul(bf16[4000,1000], bf16[1000,1000])", 1, 200};
  Machine with = machine;
  with.table =
      ASYRA_VALUE(CostTable::Calibrate({.points = {slow, old}}, machine));
  EXPECT_NEAR(CostOf(slow, with).time_us, 70, 1e-9);
  EXPECT_NEAR(CostOf(old, with).time_us, 200, 1e-9);
  // The same at the machine's clock, where arithmetic alone limits it.
  Measurement fast = {slow.call, 1, 0, 1000};
  EXPECT_NEAR(CostOf(fast, with).time_us, 70 / 1.8, 1e-9);
}

TEST(Energy, OldTablesHaveNoClocks) {
  auto table = [](std::string_view schema, std::string_view more) {
    return fmt::format(
        R"json({{"schema": {}, "device": "a", "driver": "b", "libraries": "c",
            "date": "d", "method": "e",
            "points": [{{"call": "neg(f32[2])", "us": 3{}}}]}})json",
        schema, more);
  };
  auto read = [](const std::string& text) {
    return ReadMeasurements(text, "my.table");
  };
  EXPECT_EQ(ASYRA_VALUE(read(table("1", ""))).points[0].mhz, 0);
  EXPECT_EQ(ASYRA_VALUE(read(table("2", ""))).points[0].mhz, 0);
  EXPECT_EQ(ASYRA_VALUE(read(table("2", ", \"mhz\": 1500"))).points[0].mhz,
            1500);
  EXPECT_EQ(MessageOf(read(table("1", ", \"mhz\": 1500")).status()),
            "my.table: points[0].mhz: is not a known key");
  EXPECT_EQ(MessageOf(read(table("2", ", \"mhz\": 0")).status()),
            "my.table: points[0].mhz: is 0, it should lie in [1, 10000]");
  EXPECT_EQ(MessageOf(read(table("3", "")).status()),
            "my.table: schema: is 3, it should lie in [1, 2]");
}

}  // namespace
}  // namespace asyra
