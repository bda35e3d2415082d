// Steps without a schedule.
#include "passes/search/estimate_step.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "models/models.h"
#include "passes/compile.h"
#include "simulator/cost/load_machine.h"

namespace asyra {
namespace {

using testing::HasSubstr;
using testing::Not;

CompileResult CompiledOn(const std::string& mesh_axis, int64_t size,
                         CompileOptions options) {
  Program model = ASYRA_VALUE(BuiltinModel("llama3-tiny", {}));
  RaisedProgram raised = ASYRA_VALUE(Raise(std::move(model), options, {}));
  Mesh mesh = ASYRA_VALUE(Mesh::Create({{mesh_axis, size}}));
  return ASYRA_VALUE(
      Compile(raised, mesh, ASYRA_VALUE(LoadMachine("h200x8")), options));
}

TEST(EstimateStep, IsTheStepBeforeItsSchedule) {
  CompileOptions options;
  options.sharding.tp_strategy = "sequence";
  options.reduce_scatter = "fused";
  options.schedule.search_steps = 1;
  CompileResult searched = CompiledOn("tp", 4, options);
  options.estimate = true;
  CompileResult estimated = CompiledOn("tp", 4, options);
  EXPECT_TRUE(Verify(estimated.program).ok());
  EXPECT_EQ(estimated.program.stage, Stage::kLocal);
  EXPECT_FALSE(estimated.schedule.has_value());
  EXPECT_DOUBLE_EQ(estimated.simulated->makespan_us,
                   searched.schedule->baseline.makespan_us);
  EXPECT_LE(estimated.simulated->lower_bound_us,
            searched.simulated->makespan_us);
  EXPECT_THAT(estimated.estimate,
              HasSubstr("estimate: a schedule of this program takes between "));
}

TEST(EstimateStep, WhatDoesNotFitIsComputedAgain) {
  CompileOptions options;
  options.estimate = true;
  options.train = TrainOptions();
  CompileResult whole = CompiledOn("dp", 2, options);
  EXPECT_THAT(whole.estimate, Not(HasSubstr("computed again")));
  options.schedule.capacity_bytes = 1 << 10;
  CompileResult small = CompiledOn("dp", 2, options);
  EXPECT_THAT(small.estimate,
              HasSubstr("all values of forward are computed again, and the "
                        "loss in 8 chunks, or it would not fit"));
  EXPECT_LT(small.simulated->peak_bytes, whole.simulated->peak_bytes);
  // A choice that was asked for stays.
  options.train->recompute = "none";
  CompileResult asked = CompiledOn("dp", 2, options);
  EXPECT_THAT(asked.estimate, Not(HasSubstr("computed again")));
}

}  // namespace
}  // namespace asyra
