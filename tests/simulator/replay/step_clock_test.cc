#include "simulator/replay/step_clock.h"

#include <cmath>
#include <cstdio>
#include <random>

#include "gmock/gmock.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine_edit.h"
#include "simulator/replay/simulate.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

TEST(StepClock, IsTheHighestWithinTheLimit) {
  GpuPower power = RoundPower();
  auto constant = [](double) { return 1000.0; };
  // 400 W beyond idling are 400 mJ in a ms.
  EXPECT_EQ(StepClock(power, {.math_uj = 300e3}, constant), 2000);
  EXPECT_NEAR(StepClock(power, {.math_uj = 800e3}, constant), 1000, 0.1);
  EXPECT_NEAR(StepClock(power, {.math_uj = 300e3, .bytes_uj = 250e3}, constant),
              1000, 0.1);
  // Slower clocks give the energy more time: f (100 / f) is constant there.
  auto all_math = [](double mhz) { return 1e6 / mhz; };
  double mhz = StepClock(power, {.math_uj = 800e3}, all_math);
  EXPECT_NEAR(WattsAt(power, {.math_uj = 800e3}, mhz, all_math(mhz)), 500, 0.1);
  EXPECT_NEAR(mhz, 1000, 0.1);
  // Nothing to do, and bytes that no clock makes cheaper.
  EXPECT_EQ(StepClock(power, {}, [](double) { return 0.0; }), 2000);
  EXPECT_LT(StepClock(power, {.bytes_uj = 900e3}, constant), 200);
}

Program Step(int64_t rows) {
  return ASYRA_VALUE(ParseProgram(fmt::format(R"(asyra 1 local
mesh (tp=2)
program @f(%x: bf16[{0}, 4096@tp] weight, %w: bf16[4096@tp, 4096] weight)
    -> (bf16[{0}@tp, 4096]) {{
  %a = matmul(%x, %w) : bf16[{0}, 4096] partial(tp)
  %b = reduce_scatter(%a) {{dim=0, axes=tp}} : bf16[{0}@tp, 4096]
  %c = gelu_tanh(%b) : bf16[{0}@tp, 4096]
  return %c
}})",
                                              rows)));
}

// Loaded once: its table is long.
SimResult OnH200(const Program& program, const std::string& edit) {
  static const Machine* h200 = new Machine(ASYRA_VALUE(LoadMachine("h200x2")));
  Machine machine = *h200;
  machine.gpu.power =
      ASYRA_VALUE(ParseMachine(ASYRA_VALUE(EditMachine(
                                   ASYRA_VALUE(MachineText("h200x2")), {edit})),
                               "edited.machine"))
          .gpu.power;
  return Simulate(program, CostModel(machine, program.mesh));
}

SimResult On(const Program& program, const std::vector<std::string>& edits) {
  return Simulate(program, CostModel(ASYRA_VALUE(LoadMachine("h200x2", edits)),
                                     program.mesh));
}

TEST(StepClock, OfAStepIsInItsResult) {
  Program program = Step(65536);
  SimResult limited = On(program, {"gpu.power.cap_w=400"});
  EXPECT_NEAR(limited.watts, 400, 0.1);
  EXPECT_LT(limited.clock_mhz, 1980);
  SimResult free = On(program, {"gpu.power.cap_w=2000"});
  EXPECT_EQ(free.clock_mhz, 1980);
  EXPECT_LT(free.watts, 2000);
  EXPECT_LT(free.makespan_us, limited.makespan_us);
  EXPECT_EQ(free.spans.back().end_us, free.makespan_us);
  // Costs at a clock keep it.
  CostModel costs(ASYRA_VALUE(LoadMachine("h200x2")), program.mesh);
  EXPECT_EQ(Simulate(program, costs.AtClock(1200)).clock_mhz, 1200);
  // Without power nothing is said of it.
  CostModel other(ASYRA_VALUE(LoadMachine("a800x8")), program.mesh);
  EXPECT_EQ(Simulate(program, other).clock_mhz, 0);
}

// Pairs of machines of which one has a better number of its power.
TEST(StepClock, BetterNumbersAreNeverSlower) {
  constexpr unsigned kSeed = 20261130;
  std::mt19937 random(kSeed);
  auto pick = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  struct Number {
    const char* key;
    double low, high;
    bool more_is_better;
  };
  const Number numbers[] = {
      {"cap_w", 250, 900, true},  {"most_mhz", 1700, 2500, true},
      {"idle_w", 20, 200, false}, {"pj_matrix.bf16", 0.2, 3, false},
      {"pj_hbm", 10, 300, false}, {"pj_link", 50, 2000, false},
      {"pj_vector", 1, 50, false}};
  int limited = 0;
  constexpr int kPairs = 200;
  for (int i = 0; i < kPairs; ++i) {
    const Number& number = numbers[i % std::size(numbers)];
    double a = pick(number.low, number.high), b = pick(number.low, number.high);
    double better = number.more_is_better ? std::max(a, b) : std::min(a, b);
    double worse = a + b - better;
    Program program = Step(int64_t{1} << (10 + i % 7));
    auto us = [&](double value) {
      SimResult result =
          OnH200(program, fmt::format("gpu.power.{}={}", number.key, value));
      limited += result.clock_mhz < 1600;
      return result.makespan_us;
    };
    double better_us = us(better), worse_us = us(worse);
    EXPECT_LE(better_us, worse_us * (1 + 1e-4))
        << number.key << " " << better << " against " << worse;
  }
  EXPECT_GT(limited, kPairs / 10);
  std::printf("seed %u: %d pairs, %d steps below 1600 MHz\n", kSeed, kPairs,
              limited);
}

TEST(StepClock, NumbersAreChecked) {
  auto error = [](const std::string& edit) {
    return std::string(MessageOf(LoadMachine("h200x2", {edit}).status()));
  };
  EXPECT_THAT(
      error("gpu.power.measured_mhz=2100"),
      HasSubstr("gpu.power.measured_mhz: is 2100, above most_mhz 1980"));
  EXPECT_THAT(error("gpu.power.idle_w=800"),
              HasSubstr("gpu.power.idle_w: is 800, above cap_w 692"));
  EXPECT_THAT(error("gpu.power.cap_w=0"),
              HasSubstr("gpu.power.cap_w: is 0, it should lie in"));
  EXPECT_THAT(error("gpu.power.watts=3"), HasSubstr("is not a known key"));
  EXPECT_THAT(error("host.beside_copies=0.9"),
              HasSubstr("host.beside_copies: is not a known key"));
}

}  // namespace
}  // namespace asyra
