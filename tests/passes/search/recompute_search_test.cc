#include "passes/search/recompute_search.h"

#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine.h"

namespace asyra {
namespace {

// Not fused.
Program Step(int64_t layers, const CostModel& costs, const Mesh& mesh,
             int64_t tokens = 4096, const std::string& zero = "0") {
  Program program = ASYRA_VALUE(BuiltinModel(
      "llama3-8b", {{"batch", 4}, {"seq", tokens}, {"layers", layers}}));
  program.mesh = mesh;
  PassContext context{.costs = &costs};
  ASYRA_CHECK_OK(
      RunPasses(program, ShardPasses({}, TrainOptions{.zero = zero}), context));
  return program;
}

// The memory of a step with few layers is scaled to all of its layers.
TEST(RecomputeSearch, WhatFitsByFewLayersFitsByAll) {
  Mesh mesh = *Mesh::Create({{"tp", 4}});
  CostModel costs(*LoadMachine("h200x8"), mesh);
  PassContext context{.costs = &costs};
  Pipeline fuse = FusePasses(false, "estimated");
  for (int64_t layers : {3, 10, 24}) {
    RecomputeSearch search(Step(layers, costs, mesh), fuse, context);
    RecomputeReport all = ASYRA_VALUE(search.Without("all")).report;
    auto most = static_cast<double>(all.kept.device_bytes);
    auto least = static_cast<double>(all.dropped.device_bytes);
    ASSERT_LT(least, 0.9 * most);
    for (double part : {0.3, 0.6, 0.9}) {
      SCOPED_TRACE(
          fmt::format("{} layers, {} of what can be saved", layers, 1 - part));
      auto bytes = static_cast<int64_t>(least + part * (most - least));
      auto choice = ASYRA_VALUE(search.Fit(bytes));
      ASSERT_TRUE(choice.has_value());
      const RecomputeReport& report = choice->report;
      EXPECT_LE(report.dropped.device_bytes, bytes);
      EXPECT_LT(report.values.size(), all.values.size());
      EXPECT_GE(report.dropped.ops_us, report.kept.ops_us);
    }
    auto enough = static_cast<int64_t>(1.2 * most);
    EXPECT_FALSE(ASYRA_VALUE(search.Fit(enough)).has_value());
  }
}

// The part of it that the step hides when it computes swiglu again.
double HiddenOn(const std::string& machine, int64_t tokens) {
  Mesh mesh = *Mesh::Create({{"dp", 2}});
  CostModel costs(*LoadMachine(machine), mesh);
  PassContext context{.costs = &costs};
  Pipeline fuse = FusePasses(false, "measured");
  RecomputeSearch search(Step(4, costs, mesh, tokens, "3"), fuse, context);
  return ASYRA_VALUE(search.Without("layer*.swiglu")).report.Hidden();
}

// Where a schedule waits for nothing all of it counts, though a short search
// leaves waits; where links are slow it hides.
TEST(RecomputeSearch, OnlyWaitsOfAnyScheduleHide) {
  EXPECT_LT(HiddenOn("h200x2", 8192), 0.2);
  EXPECT_GT(HiddenOn("l4x8", 256), 0.6);
}

}  // namespace
}  // namespace asyra
