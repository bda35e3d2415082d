#include "tools/step_shape.h"

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

}  // namespace
}  // namespace asyra
