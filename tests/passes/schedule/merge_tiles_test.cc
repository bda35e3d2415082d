#include "passes/schedule/merge_tiles.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "tests/support/fixture.h"

namespace asyra {
namespace {

// relu on both tiles of x, cut by `cut` and joined by `join`.
Program Relu(std::string_view cut, std::string_view join) {
  return ASYRA_VALUE(ParseProgram(fmt::format(R"(asyra 1 scheduled

program @f(%x: f32[8, 8]) -> (f32[8, 8]) {{
  %x.t0 = tile(%x) {{part=0, of=2, {0}}} on compute : f32[4, 8]
  %x.t1 = tile(%x) {{part=1, of=2, {0}}} on compute : f32[4, 8]
  %y.t0 = relu(%x.t0) on compute : f32[4, 8]
  %y.t1 = relu(%x.t1) on compute : f32[4, 8]
  %y = untile(%y.t0, %y.t1) {{{1}}} on compute : f32[8, 8]
  return %y
}}
)",
                                              cut, join)));
}

// Merges what comes after both tiles, ops 2 and 3.
std::string Merged(const Program& program) {
  Program merged = ASYRA_VALUE(TileMerger(program).Merge({{2, 3}}));
  std::vector<Tensor> inputs = SmallIntegerInputs(program);
  absl::Status same =
      SameOutputs(ASYRA_VALUE(Interpret(program, inputs)),
                  ASYRA_VALUE(Interpret(merged, inputs)), /*tolerance=*/0);
  EXPECT_TRUE(same.ok()) << same;
  return ToString(merged);
}

TEST(MergeTiles, WhatIsJoinedAsItWasCutIsTheWhole) {
  for (const char* how : {"dim=0", "dim=0, blocks=2"}) {
    std::string text = Merged(Relu(how, how));
    EXPECT_THAT(text, testing::HasSubstr("%y = relu(%x)"));
    EXPECT_THAT(text, testing::Not(testing::HasSubstr("tile(")));
  }
}

TEST(MergeTiles, WhatIsJoinedInOtherBlocksIsNot) {
  std::string text = Merged(Relu("dim=0, blocks=2", "dim=0"));
  EXPECT_THAT(text, testing::HasSubstr("%y = relu(%x)"));
  EXPECT_THAT(text, testing::HasSubstr(
                        "%y.t1 = tile(%y) {dim=0, part=1, of=2, blocks=2}"));
  EXPECT_THAT(text, testing::HasSubstr("untile(%y.t0, %y.t1) {dim=0}"));
}

TEST(MergeTiles, WhatIsCutDifferentlyIsRefused) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 scheduled

program @f(%x: f32[8, 8]) -> (f32[8, 8]) {
  %x0 = tile(%x) {dim=0, part=0, of=2} on compute : f32[4, 8]
  %x1 = tile(%x) {dim=0, part=1, of=2, blocks=2} on compute : f32[4, 8]
  %y0 = relu(%x0) on compute : f32[4, 8]
  %y1 = relu(%x1) on compute : f32[4, 8]
  %y = untile(%y0, %y1) {dim=0} on compute : f32[8, 8]
  return %y
}
)"));
  EXPECT_THAT(TileMerger(program).Merge({{2, 3}}).status().ToString(),
              testing::HasSubstr("%y0 and %y1 are not tiles of one value"));
}

}  // namespace
}  // namespace asyra
