#include "simulator/replay/sensitivity.h"

#include <fstream>

#include "gmock/gmock.h"
#include "simulator/cost/load_machine.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

// The test machine without its overheads: the makespan is bytes over memory
// bandwidth, and nothing else.
std::string MachineFile() {
  std::string path = testing::TempDir() + "sensitivity_test.machine";
  std::ofstream(path) << kTestMachine;
  return path;
}

// Rows by a square matrix.
Program Matmul(int64_t rows, int64_t width) {
  return Parse(fmt::format(R"(asyra 1 scheduled
program @f(%x: bf16[{0}, {1}], %w: bf16[{1}, {1}]) -> (bf16[{0}, {1}]) {{
  %a = matmul(%x, %w) on compute : bf16[{0}, {1}]
  return %a
}})",
                           rows, width));
}

TEST(Sensitivity, IsTheShareOfTheMakespanThatANumberRules) {
  Program program = Parse(R"(asyra 1 scheduled
program @f(%x: f32[50000]) -> (f32[50000]) {
  %a = neg(%x) on compute : f32[50000]
  return %a
})");
  auto list = Sensitivities(program, MachineFile(), {});
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_FALSE(list->empty());
  const Sensitivity& first = (*list)[0];
  EXPECT_EQ(first.key, "gpu.hbm_gbps");
  EXPECT_NEAR(first.elasticity, -1, 1e-6);
  EXPECT_NEAR(first.change_us, 400 / 1.1 - 400, 1e-6);
  for (const Sensitivity& entry : *list) {
    if (!entry.error.empty() || entry.key == first.key) continue;
    EXPECT_LT(std::abs(entry.elasticity), 1e-3) << entry.key;
  }
  EXPECT_THAT(SensitivityReport(*list), testing::HasSubstr("gpu.hbm_gbps"));
}

// A long matmul is at the limit of power.
TEST(Sensitivity, PowerIsANumberOfTheMachine) {
  Program program = Matmul(32768, 8192);
  auto list = ASYRA_VALUE(Sensitivities(program, "h200x2", {}));
  auto elasticity = [&](std::string_view key) {
    for (const Sensitivity& entry : list) {
      if (entry.key == key) return entry.elasticity;
    }
    return 0.0;
  };
  EXPECT_LT(elasticity("gpu.power.cap_w"), -0.2);
  EXPECT_GT(elasticity("gpu.power.pj_matrix.bf16"), 0.2);
  EXPECT_GT(elasticity("gpu.power.idle_w"), 0);
  EXPECT_EQ(elasticity("gpu.power.pj_link"), 0);
  // Energies are those at the highest clock.
  EXPECT_LT(elasticity("gpu.power.most_mhz"), 0);
}

TEST(Sensitivity, EditsComeFirst) {
  Program program = Parse(R"(asyra 1 scheduled
program @f(%x: f32[50000]) -> (f32[50000]) {
  %a = neg(%x) on compute : f32[50000]
  return %a
})");
  auto list = Sensitivities(program, MachineFile(), {"launch_us=1000"});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ((*list)[0].key, "launch_us");
  EXPECT_EQ((*list)[0].value, 1000);
  EXPECT_FALSE(Sensitivities(program, MachineFile(), {"no.such=1"}).ok());
}

TEST(Sensitivity, FlopsPerClockStandForThePeakThatTheyFix) {
  Program program = Matmul(4096, 4096);
  auto list = Sensitivities(program, "h200x8", {});
  ASSERT_TRUE(list.ok()) << list.status();
  auto find = [&](std::string_view key) {
    return *std::find_if(list->begin(), list->end(),
                         [&](const Sensitivity& s) { return s.key == key; });
  };
  EXPECT_LT(find("gpu.bf16_flops_per_sm_clock").elasticity, -0.5);
  EXPECT_EQ(list->back().key, "gpu.matrix_tflops.bf16");
  EXPECT_FALSE(list->back().error.empty());
  EXPECT_THAT(
      SensitivityReport(*list),
      testing::HasSubstr("other numbers determine gpu.matrix_tflops.bf16\n"));
}

// The program that is faster counts, on both machines.
TEST(Sensitivity, ProgramsAreRetuned) {
  auto parse = [](int64_t rows) {
    return Parse(fmt::format(R"(asyra 1 scheduled
program @f(%x: f32[{0}]) -> (f32[{0}]) {{
  %a = neg(%x) on compute : f32[{0}]
  return %a
}})",
                             rows));
  };
  Program program = parse(50000);
  SensitivityOptions options;
  double now_gbps = LoadMachine(MachineFile())->gpu.hbm_gbps.peak;
  options.retune = [&](const CostModel& costs) -> absl::StatusOr<Program> {
    bool raised = costs.machine().gpu.hbm_gbps.peak > now_gbps;
    return raised ? parse(25000) : parse(100000);
  };
  auto list = Sensitivities(program, MachineFile(), {}, options);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ((*list)[0].key, "gpu.hbm_gbps");
  EXPECT_NEAR((*list)[0].change_us, 200 / 1.1 - 400, 1e-6);
  options.retune = [](const CostModel&) -> absl::StatusOr<Program> {
    return absl::InternalError("no program");
  };
  EXPECT_EQ(
      Sensitivities(program, MachineFile(), {}, options).status().message(),
      "no program");
}

TEST(Sensitivity, GroupsAreRaisedTogether) {
  Program program = Matmul(4096, 4096);
  auto list = Sensitivities(program, "h200x8", {});
  ASSERT_TRUE(list.ok()) << list.status();
  auto matrix =
      std::find_if(list->begin(), list->end(),
                   [](const Sensitivity& s) { return s.key == "matrix"; });
  ASSERT_NE(matrix, list->end());
  EXPECT_EQ(matrix->value, 0);
  EXPECT_LT(matrix->elasticity, -0.5);
  EXPECT_THAT(SensitivityReport(*list),
              testing::ContainsRegex("matrix +group +1.10"));
}

}  // namespace
}  // namespace asyra
