#include "passes/schedule/tile/merge_tiles.h"

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

// Its readers are merged, but it is what another stream waits for.
TEST(MergeTiles, AnAwaitedTileStays) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 scheduled

program @f(%x: f32[8, 8], %z: f32[8]) -> (f32[8, 8], f32[8]) {
  %x.t0 = tile(%x) {dim=0, part=0, of=2} on compute : f32[4, 8]
  %x.t1 = tile(%x) {dim=0, part=1, of=2} on compute : f32[4, 8]
  %y.t0 = relu(%x.t0) on compute : f32[4, 8]
  %y.t1 = relu(%x.t1) on compute : f32[4, 8]
  %y = untile(%y.t0, %y.t1) {dim=0} on compute : f32[8, 8]
  %w = relu(%z) on compute2 after(%x.t1) : f32[8]
  return %y, %w
}
)"));
  std::string text = Merged(program);
  EXPECT_THAT(text, testing::HasSubstr("%y = relu(%x)"));
  EXPECT_THAT(text, testing::HasSubstr("after(%x.t1)"));
}

// r.t0 may be a tile of [1, 2, 1, 4] or of [1, 4, 1, 2]; only the first has its
// tiles where those of c are.
TEST(MergeTiles, AnAmbiguousReshapeIsSettledByTheOtherOperand) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 scheduled

program @f(%x: f32[2, 4], %c: f32[4, 8]) -> (f32[4, 8]) {
  %x.t0 = tile(%x) {dim=1, part=0, of=2} on compute : f32[2, 2]
  %x.t1 = tile(%x) {dim=1, part=1, of=2} on compute : f32[2, 2]
  %r.t0 = reshape(%x.t0) {shape=[1, 2, 1, 2]} on compute : f32[1, 2, 1, 2]
  %r.t1 = reshape(%x.t1) {shape=[1, 2, 1, 2]} on compute : f32[1, 2, 1, 2]
  %b.t0 = broadcast(%r.t0) {shape=[2, 2, 2, 2]} on compute : f32[2, 2, 2, 2]
  %b.t1 = broadcast(%r.t1) {shape=[2, 2, 2, 2]} on compute : f32[2, 2, 2, 2]
  %s.t0 = reshape(%b.t0) {shape=[4, 4]} on compute : f32[4, 4]
  %s.t1 = reshape(%b.t1) {shape=[4, 4]} on compute : f32[4, 4]
  %c.t0 = tile(%c) {dim=1, part=0, of=2, blocks=2} on compute : f32[4, 4]
  %c.t1 = tile(%c) {dim=1, part=1, of=2, blocks=2} on compute : f32[4, 4]
  %y.t0 = add(%c.t0, %s.t0) on compute : f32[4, 4]
  %y.t1 = add(%c.t1, %s.t1) on compute : f32[4, 4]
  %y = untile(%y.t0, %y.t1) {dim=1, blocks=2} on compute : f32[4, 8]
  return %y
}
)"));
  TileMerger merger(program);
  std::vector<Tensor> inputs = SmallIntegerInputs(program);
  std::vector<Tensor> expected = ASYRA_VALUE(Interpret(program, inputs));
  std::vector<std::vector<TileGroup>> merges = {
      {{2, 3}}, {{2, 3}, {4, 5}, {6, 7}}, {{2, 3}, {4, 5}, {6, 7}, {10, 11}}};
  int merged = 0;
  for (const std::vector<TileGroup>& groups : merges) {
    absl::StatusOr<Program> result = merger.Merge(groups);
    if (!result.ok()) continue;
    ++merged;
    absl::Status same = SameOutputs(
        expected, ASYRA_VALUE(Interpret(*result, inputs)), /*tolerance=*/0);
    EXPECT_TRUE(same.ok()) << same << ToString(*result);
  }
  EXPECT_GE(merged, 1);
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

// The gradient of a weight from two tiles; `second` reads the tiles of the
// other lane and the first matmul.
Program WeightGradient(std::string_view second, std::string_view more = "%s1") {
  return ASYRA_VALUE(ParseProgram(fmt::format(R"(asyra 1 scheduled

program @f(%x: f32[8, 8], %g: f32[8, 8], %z: f32[8, 8]) -> (f32[8, 8], f32[8, 8]) {{
  %x0 = tile(%x) {{dim=0, part=0, of=2}} on compute : f32[4, 8]
  %x1 = tile(%x) {{dim=0, part=1, of=2}} on compute : f32[4, 8]
  %g0 = tile(%g) {{dim=0, part=0, of=2}} on compute : f32[4, 8]
  %g1 = tile(%g) {{dim=0, part=1, of=2}} on compute : f32[4, 8]
  %s0 = matmul_wgrad(%x0, %g0) on compute : f32[8, 8]
  %s1 = fusion({}) {{
    %3 = matmul_wgrad(%0, %1) : f32[8, 8]
    %4 = add(%2, %3) : f32[8, 8]
    return %4
  }} on compute : f32[8, 8]
  %y = relu({}) on compute : f32[8, 8]
  return %s1, %y
}}
)",
                                              second, more)));
}

absl::Status MergedSum(const Program& program) {
  return TileMerger(program).Merge({{4, 5}}).status();
}

void ExpectSameWhereMerged(const Program& program, const Program& merged) {
  std::vector<Tensor> inputs = SmallIntegerInputs(program);
  absl::Status same =
      SameOutputs(ASYRA_VALUE(Interpret(program, inputs)),
                  ASYRA_VALUE(Interpret(merged, inputs)), /*tolerance=*/0);
  EXPECT_TRUE(same.ok()) << same << ToString(merged);
}

TEST(MergeTiles, ASumIsOneProduct) {
  Program program = WeightGradient("%x1, %g1, %s0");
  Program merged = ASYRA_VALUE(TileMerger(program).Merge({{4, 5}}));
  EXPECT_EQ(merged.ops.size(), 2u) << ToString(merged);
  EXPECT_THAT(ToString(merged),
              testing::HasSubstr("%s0.whole = matmul_wgrad(%x, %g)"));
  ExpectSameWhereMerged(program, merged);
}

// Tiles of other values are joined before the matmul.
TEST(MergeTiles, ASumOfTilesOfSeveralValuesIsOneMatmulOfThemJoined) {
  for (const char* second : {"%g1, %x1, %s0", "%g1, %g1, %s0"}) {
    Program program = WeightGradient(second);
    Program merged = ASYRA_VALUE(TileMerger(program).Merge({{4, 5}}));
    EXPECT_THAT(ToString(merged), testing::HasSubstr("untile(%x0, %g1)"));
    ExpectSameWhereMerged(program, merged);
  }
}

TEST(MergeTiles, WhatIsNoSumOfTilesIsRefused) {
  // Another value is added to, a factor is a tile of the other lane, or the
  // first matmul is read on its own.
  for (const Program& program :
       {WeightGradient("%x1, %g1, %z"), WeightGradient("%x1, %g0, %s0"),
        WeightGradient("%x1, %g1, %s0", "%s0")}) {
    EXPECT_FALSE(MergedSum(program).ok()) << ToString(program);
  }
}

}  // namespace
}  // namespace asyra
