#include "tools/bench/bench_power.h"

#include <cmath>

#include "gmock/gmock.h"
#include "ir/parser.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/energy.h"
#include "simulator/cost/load_machine.h"
#include "simulator/replay/step_clock.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

// The load as a GPU of this power would have it: its clock is the highest
// within the limit.
LoadPower PowerOn(const GpuPower& power, const MeasuredLoad& load,
                  const Machine& machine, int ranks) {
  LoadPower result{.busy = load.load.busy,
                   .mhz = power.most_mhz,
                   .most_mhz = power.most_mhz,
                   .watts = power.idle_w,
                   .limit_w = 700};
  if (load.load.text.empty()) return result;
  Mesh mesh = ASYRA_VALUE(Mesh::Create({{"x", ranks}}));
  ParsedCall call = ASYRA_VALUE(ParseCall(load.load.text, mesh));
  std::vector<Type> results =
      ASYRA_VALUE(InferTypes(*call.def, call.attrs, call.operands, mesh));
  OpCall use = {*call.def, call.attrs, call.operands, results};
  auto cost_at = [&](double mhz) {
    return CostModel(machine, mesh).AtClock(mhz).Cost(use);
  };
  OpEnergy energy = cost_at(power.most_mhz).energy;
  auto us_at = [&](double mhz) {
    return cost_at(mhz).time_us / load.load.busy;
  };
  result.mhz = StepClock(power, energy, us_at);
  result.us = cost_at(result.mhz).time_us;
  result.watts = WattsAt(power, energy, result.mhz, us_at(result.mhz));
  return result;
}

TEST(BenchPower, FindsTheNumbersThatLoadsHave) {
  constexpr int kRanks = 2;
  Machine machine = ASYRA_VALUE(LoadMachine("h200x2"));
  machine.table = nullptr;
  machine.gpu.kernel_us = 0;
  machine.gpu.matrix_tflops.erase("f64");
  const GpuPower& power = *machine.gpu.power;
  std::vector<MeasuredLoad> loads = PowerLoads(machine, kRanks);
  for (MeasuredLoad& load : loads) {
    load.power = PowerOn(power, load, machine, kRanks);
  }
  GpuPower found = ASYRA_VALUE(PowerOf(loads, kRanks));
  auto near = [](double value, double expected, double share) {
    return std::abs(value / expected - 1) < share;
  };
  EXPECT_PRED3(near, found.cap_w, power.cap_w, 1e-3);
  EXPECT_PRED3(near, found.idle_w, power.idle_w, 1e-9);
  EXPECT_EQ(found.most_mhz, power.most_mhz);
  EXPECT_LT(found.measured_mhz, power.most_mhz);
  EXPECT_PRED3(near, found.exponent, power.exponent, 0.01);
  // The share of the time at the clock of the loads.
  double share = power.clock_share * power.measured_mhz / found.measured_mhz /
                 MathFactor(power, found.measured_mhz);
  EXPECT_PRED3(near, found.clock_share, share, 0.01);
  for (const char* type : {"bf16", "f16", "f32"}) {
    EXPECT_PRED3(near, found.pj_matrix.at(type), power.pj_matrix.at(type), 0.01)
        << type;
  }
  EXPECT_PRED3(near, found.pj_vector, power.pj_vector, 0.1);
  EXPECT_PRED3(near, found.pj_hbm, power.pj_hbm, 0.02);
  EXPECT_PRED3(near, found.pj_link, power.pj_link, 0.01);
  EXPECT_THAT(PowerText(loads, found), HasSubstr("matmul of bf16, 40 % of"));
}

TEST(BenchPower, RefusesMatmulsWithoutPower) {
  std::vector<MeasuredLoad> loads =
      PowerLoads(ASYRA_VALUE(LoadMachine("h200x2")), 1);
  for (MeasuredLoad& load : loads) {
    load.power = {.us = 10,
                  .busy = load.load.busy,
                  .mhz = 1000,
                  .most_mhz = 1000,
                  .watts = 100,
                  .limit_w = 300};
  }
  EXPECT_THAT(PowerOf(loads, 1).status().ToString(),
              HasSubstr("a matmul takes 100 W, as a pause does (100 W)"));
}

}  // namespace
}  // namespace asyra
