// Overlaps and fused reductions of a whole model: wherever they may be formed
// the program computes the same, and the search with them is never worse than
// without.
#include "passes/schedule/transport/form_overlaps.h"

#include <cmath>

#include "absl/algorithm/container.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/overlap.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/schedule/transport/fuse_reductions.h"
#include "passes/search/schedule.h"
#include "tests/support/costs.h"

namespace asyra {
namespace {

Program Partitioned(std::string_view model, std::vector<Mesh::Axis> axes,
                    const std::vector<std::pair<std::string, int64_t>>& dims,
                    PassContext* context, std::unique_ptr<CostModel>* costs,
                    const std::string& strategy = "auto") {
  Program program =
      ASYRA_VALUE(BuiltinModel(std::string(model), {dims.begin(), dims.end()}));
  program.mesh = ASYRA_VALUE(Mesh::Create(std::move(axes)));
  *costs = std::make_unique<CostModel>(Costs(program));
  context->costs = costs->get();
  ASYRA_CHECK_OK(
      RunPasses(program, ShardPasses({.tp_strategy = strategy}), *context));
  return program;
}

int Overlaps(const Program& program) {
  return static_cast<int>(absl::c_count_if(
      program.ops, [](const Op& op) { return IsOverlap(*op.def); }));
}

class OnMeshes : public testing::TestWithParam<std::vector<Mesh::Axis>> {
 protected:
  // Schedules a small model under a strategy of its norms, has `form` make
  // overlaps of it, and takes them apart again.
  using Form = absl::StatusOr<int> (*)(Program& program,
                                       const CostModel& costs);
  static void ExpectSame(const std::string& strategy, Form form) {
    PassContext context;
    std::unique_ptr<CostModel> costs;
    Program local = Partitioned("llama3-tiny", GetParam(), {{"seq", 16}},
                                &context, &costs, strategy);
    std::vector<Tensor> inputs = RandomInputs(local, 1, 256);
    std::vector<Tensor> want = ASYRA_VALUE(Interpret(local, inputs));
    for (int tiles : {1, 2}) {
      ScheduleOptions options{.tiles = tiles, .search_steps = 200};
      options.closed = {"fuse_reductions"};
      Program program = ASYRA_VALUE(Schedule(local, options, context)).program;
      int formed = ASYRA_VALUE(form(program, *costs));
      SCOPED_TRACE(ToString(program));
      EXPECT_GT(formed, 0);
      EXPECT_EQ(Overlaps(program), formed);
      EXPECT_EQ(Verify(program), absl::OkStatus());
      EXPECT_EQ(ToString(ASYRA_VALUE(ParseProgram(ToString(program)))),
                ToString(program));
      ExpectNear(ASYRA_VALUE(Interpret(program, inputs)), want);
      ASYRA_CHECK_OK(SplitOverlapsPass(program, {}, context).status());
      EXPECT_EQ(Overlaps(program), 0);
      EXPECT_EQ(Verify(program), absl::OkStatus());
      ExpectNear(ASYRA_VALUE(Interpret(program, inputs)), want);
    }
  }

 private:
  static void ExpectNear(const std::vector<Tensor>& got,
                         const std::vector<Tensor>& want) {
    for (int64_t i = 0; i < want[0].num_elements(); ++i) {
      ASSERT_NEAR(got[0].Get(i), want[0].Get(i), 1e-6);
    }
  }
};

TEST_P(OnMeshes, EveryOverlapComputesTheSame) {
  ExpectSame("auto", [](Program& program, const CostModel& costs) {
    return FormOverlaps(program, {.always = true}, costs);
  });
}

TEST_P(OnMeshes, EveryFusedReductionComputesTheSame) {
  for (const char* strategy : {"replicated", "sequence"}) {
    ExpectSame(strategy, [](Program& program, const CostModel& costs) {
      return FuseReductions(program, {.always = true}, costs);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Small, OnMeshes,
                         testing::Values(std::vector<Mesh::Axis>{{"tp", 2}},
                                         std::vector<Mesh::Axis>{{"tp", 4}},
                                         std::vector<Mesh::Axis>{{"dp", 2},
                                                                 {"tp", 2}}));

// Where messages are small, the search makes one kernel of a reduction and what
// is behind it.
TEST(FuseReductions, TheSearchTakesThemForShortPrompts) {
  PassContext context;
  std::unique_ptr<CostModel> costs;
  Program local = Partitioned("llama3-8b", {{"tp", 2}},
                              {{"layers", 2}, {"batch", 1}, {"seq", 128}},
                              &context, &costs, "replicated");
  ScheduleOptions options{.search_steps = 200};
  ScheduleResult with = ASYRA_VALUE(Schedule(local, options, context));
  EXPECT_EQ(Overlaps(with.program), 4);  // two of each layer
  options.closed = {"fuse_reductions"};
  ScheduleResult without = ASYRA_VALUE(Schedule(local, options, context));
  EXPECT_EQ(Overlaps(without.program), 0);
  EXPECT_LT(with.optimized.makespan_us, without.optimized.makespan_us);
}

// Only on request, and then never worse.
TEST(FormOverlaps, TheSearchIsNeverWorseWithThem) {
  PassContext context;
  std::unique_ptr<CostModel> costs;
  Program local = Partitioned("llama3-8b", {{"tp", 2}},
                              {{"layers", 2}, {"batch", 1}, {"seq", 8192}},
                              &context, &costs, "sequence");
  ScheduleOptions options{.search_steps = 200};
  options.closed = {"fuse_reductions"};
  ScheduleResult without = ASYRA_VALUE(Schedule(local, options, context));
  EXPECT_EQ(Overlaps(without.program), 0);
  options.opened = {"form_overlaps"};
  ScheduleResult with = ASYRA_VALUE(Schedule(local, options, context));
  EXPECT_EQ(Verify(with.program), absl::OkStatus());
  EXPECT_LE(with.optimized.makespan_us, without.optimized.makespan_us);
  EXPECT_GT(Overlaps(with.program), 0);
}

}  // namespace
}  // namespace asyra
