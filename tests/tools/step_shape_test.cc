#include "passes/analysis/step_shape.h"

#include <array>

#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "tests/support/parse.h"
#include "tools/compile.h"

namespace asyra {
namespace {

CompiledModel Compiled(const std::string& model, int64_t tp, int64_t sp,
                       int64_t dp) {
  CompileFlags options;
  options.model = model;
  options.dims = {"batch=4", "seq=64"};
  options.tp = tp;
  options.sp = sp;
  options.dp = dp;
  options.search_steps = 1;
  return ASYRA_VALUE(Compile(options));
}

// A file of any stage says what its step is.
TEST(StepShape, IsThatOfTheModelAtEveryStage) {
  const StepShape want = {4, {64}, "f32"};
  for (const char* model : {"llama3-tiny", "qwen3-moe-tiny"}) {
    for (auto [tp, sp, dp] : std::initializer_list<std::array<int64_t, 3>>{
             {1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {2, 2, 2}}) {
      SCOPED_TRACE(testing::Message()
                   << model << " tp " << tp << " sp " << sp << " dp " << dp);
      CompiledModel result = Compiled(model, tp, sp, dp);
      EXPECT_EQ(StepShapeOf(result.raised), want);
      EXPECT_EQ(StepShapeOf(*result.partitioned), want);
      EXPECT_EQ(StepShapeOf(result.program), want);
    }
  }
}

StepShape ShapeOf(std::string_view type, std::string_view op) {
  return StepShapeOf(Parse(fmt::format(R"(asyra 1 global
program @f(%x: {0}, %w: f32[16, 16] weight) -> ({0}) {{
  %y = {1} : {0}
  return %y
}}
)",
                                       type, op)));
}

TEST(StepShape, NumbersWithoutASequenceAreNoTokens) {
  EXPECT_EQ(ShapeOf("f32[8, 16]", "matmul(%x, %w)"), (StepShape{8, {}, "f32"}));
  EXPECT_EQ(ShapeOf("f32[8, 16]", "exp(%x)"), (StepShape{8, {}, "f32"}));
  EXPECT_EQ(ShapeOf("f32[8, 3, 32, 32]", "exp(%x)"), (StepShape{8, {}, "f32"}));
  EXPECT_EQ(ShapeOf("f32[8, 5, 16]", "matmul(%x, %w)"),
            (StepShape{8, {5}, "f32"}));
}

// A decoder that adds a token to a cache of 64 computes one a sequence: neither
// the mask's length nor the cache's counts.
TEST(StepShape, ACacheIsNoTokens) {
  EXPECT_EQ(StepShapeOf(Parse(R"(asyra 1 global
program @f(%ids: i64[2, 1], %mask: i64[2, 65], %past: f32[2, 4, 64, 8],
           %table: f32[32, 32] weight, %w: f32[32, 32] weight)
    -> (f32[2, 1, 32], f32[2, 4, 64, 8], f32[2, 65]) {
  %x = embedding(%table, %ids) : f32[2, 1, 32]
  %y = matmul(%x, %w) : f32[2, 1, 32]
  %p = exp(%past) : f32[2, 4, 64, 8]
  %m = cast(%mask) {to=f32} : f32[2, 65]
  return %y, %p, %m
}
)")),
            (StepShape{2, {1}, "f32"}));
}

TEST(StepShape, TokensAreIdsAndNoPositionsOfAMask) {
  EXPECT_EQ(StepShapeOf(Parse(R"(asyra 1 global
program @f(%ids: i64[2, 8], %mask: i64[2, 20], %table: f32[32, 32] weight,
           %places: f32[64, 32] weight) -> (f32[2, 8, 32], f32[2, 32]) {
  %x = embedding(%table, %ids) : f32[2, 8, 32]
  %last = reduce_sum(%mask) {dims=[1], keep=false} : i64[2]
  %p = embedding(%places, %last) : f32[2, 32]
  return %x, %p
}
)")),
            (StepShape{2, {8}, "f32"}));
}

TEST(StepShape, PicturesAreImages) {
  StepShape shape = StepShapeOf(Parse(R"(asyra 1 global
program @f(%x: f32[4, 3, 32, 24], %w: f32[16, 3, 8, 8] weight)
    -> (f32[4, 16, 4, 3]) {
  %y = conv(%x, %w) {strides=[8, 8]} : f32[4, 16, 4, 3]
  return %y
}
)"));
  EXPECT_EQ(shape, (StepShape{4, {}, "f32", {32, 24}}));
  EXPECT_EQ(ToText(shape), "batch 4, images of 32 x 24, f32");
  EXPECT_EQ(StepText(shape, 1e6),
            "step: batch 4, images of 32 x 24, f32; 4 images a second\n");
}

}  // namespace
}  // namespace asyra
