#include "passes/shard/partition.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "passes/shard/plan_sharding.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

constexpr std::string_view kMlp = R"(asyra 1 global
program @mlp(%x: f32[4, 8, 16], %up: f32[16, 32] weight,
    %down: f32[32, 16] weight) -> (f32[4, 8, 16]) {
  %h = matmul(%x, %up) : f32[4, 8, 32]
  %a = gelu(%h) : f32[4, 8, 32]
  %d = matmul(%a, %down) : f32[4, 8, 16]
  %y = add(%x, %d) : f32[4, 8, 16]
  return %y
}
)";

// Plans and partitions; checks that the result computes what the program does.
Program PlanAndPartition(const Program& program) {
  PassContext context;
  absl::StatusOr<ShardingPlan> plan = PlanSharding(program, {}, context);
  EXPECT_TRUE(plan.ok()) << plan.status();
  absl::StatusOr<Program> local = Partition(program, *plan, {});
  EXPECT_TRUE(local.ok()) << local.status();
  std::vector<Tensor> inputs = RandomInputs(program, 1, 8);
  Program single = program;
  single.mesh = Mesh();
  absl::StatusOr<std::vector<Tensor>> want = Interpret(single, inputs);
  absl::StatusOr<std::vector<Tensor>> got = Interpret(*local, inputs);
  EXPECT_TRUE(want.ok()) << want.status();
  EXPECT_TRUE(got.ok()) << got.status() << "\n" << ToString(*local);
  for (size_t i = 0; i < want->size(); ++i) {
    for (int64_t k = 0; k < (*want)[i].num_elements(); ++k) {
      EXPECT_NEAR((*got)[i].Get(k), (*want)[i].Get(k), 1e-5);
    }
  }
  return *std::move(local);
}

TEST(Partition, TensorParallelMlpIsColumnThenRow) {
  Program local = PlanAndPartition(ParseOn(kMlp, {{"tp", 4}}));
  std::string text = ToString(local);
  EXPECT_THAT(text, testing::HasSubstr("%up: f32[16, 32@tp] weight"));
  EXPECT_THAT(text, testing::HasSubstr("%down: f32[32@tp, 16] weight"));
  EXPECT_THAT(text, testing::HasSubstr("%h = matmul(%x, %up) : "
                                       "f32[4, 8, 32@tp]"));
}

TEST(Partition, SequenceAxisShardsTokensAndKeepsWeightsWhole) {
  Program local = PlanAndPartition(ParseOn(kMlp, {{"sp", 2}}));
  std::string text = ToString(local);
  EXPECT_THAT(text, testing::HasSubstr("%x: f32[4, 8@sp, 16]"));
  EXPECT_THAT(text, testing::HasSubstr("%up: f32[16, 32] weight"));
  for (const Op& op : local.ops) EXPECT_FALSE(op.is_collective()) << text;
}

TEST(Partition, BothAxesTogether) {
  std::string text =
      ToString(PlanAndPartition(ParseOn(kMlp, {{"sp", 2}, {"tp", 4}})));
  EXPECT_THAT(text, testing::HasSubstr("8@sp")) << text;
}

TEST(Partition, AxisThatDividesNothingIsRefused) {
  PassContext context;
  absl::StatusOr<ShardingPlan> plan =
      PlanSharding(ParseOn(kMlp, {{"tp", 3}}), {}, context);
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.status().ToString(),
              testing::HasSubstr("axis tp of size 3 shards nothing"));
}

}  // namespace
}  // namespace asyra
