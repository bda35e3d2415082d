#include "passes/schedule/transport/use_copy_engines.h"

#include "gtest/gtest.h"
#include "ir/copy_engine.h"
#include "ir/parser.h"
#include "ir/support/status.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine.h"
#include "tests/support/fixture.h"

namespace asyra {
namespace {

// One that takes hardly longer on copy engines, one that is all latency, one
// whose CTAs are given, one of two values.
constexpr std::string_view kProgram = R"(asyra 1 local
mesh (tp=4)
program @f(%a: bf16[8192@tp, 4096], %b: bf16[64@tp], %c: bf16[8192@tp, 4096],
    %d: bf16[8192@tp, 64], %e: bf16[8192@tp, 64]) ->
    (bf16[8192, 4096], bf16[64], bf16[8192, 4096], bf16[8192, 64], bf16[8192, 64]) {
  %large = all_gather(%a) {dim=0, axes=tp} : bf16[8192, 4096]
  %small = all_gather(%b) {dim=0, axes=tp} : bf16[64]
  %given = all_gather(%c) {dim=0, axes=tp, ctas=8} : bf16[8192, 4096]
  %one, %two = all_gather(%d, %e) {dim=0, axes=tp} : bf16[8192, 64], bf16[8192, 64]
  return %large, %small, %given, %one, %two
}
)";

int Carried(std::string_view machine_name, Program* program) {
  absl::StatusOr<Program> parsed = ParseProgram(kProgram);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  *program = *std::move(parsed);
  absl::StatusOr<Machine> machine = LoadMachine(std::string(machine_name));
  EXPECT_TRUE(machine.ok()) << machine.status();
  return UseCopyEngines(*program, CostModel(*machine, program->mesh));
}

TEST(UseCopyEngines, WhatTakesHardlyLonger) {
  Program program;
  EXPECT_EQ(Carried("h200x8", &program), 1);
  EXPECT_TRUE(AsksForCopyEngine(program.ops[0].attrs));
  for (size_t i = 1; i < program.ops.size(); ++i) {
    EXPECT_FALSE(AsksForCopyEngine(program.ops[i].attrs)) << i;
  }
}

TEST(UseCopyEngines, NothingWhereNoEngineReachesTheOthers) {
  Program program;
  EXPECT_EQ(Carried("rtx4090x8", &program), 0);
  EXPECT_FALSE(AsksForCopyEngine(program.ops[0].attrs));
}

}  // namespace
}  // namespace asyra
