#include "passes/analysis/lanes.h"

#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

// [4, 8] as [1, 4, 8] could be half of [1, 8, 8] as well: the untile says of
// what it is.
TEST(TilesOf, OfTilesOfOneBatch) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 local

program @f(%x: f32[8, 8]) -> (f32[2, 4, 8]) {
  %x0 = tile(%x) {dim=0, part=0, of=2} : f32[4, 8]
  %x1 = tile(%x) {dim=0, part=1, of=2} : f32[4, 8]
  %r0 = reshape(%x0) {shape=[1, 4, 8]} : f32[1, 4, 8]
  %r1 = reshape(%x1) {shape=[1, 4, 8]} : f32[1, 4, 8]
  %y0 = neg(%r0) : f32[1, 4, 8]
  %y1 = neg(%r1) : f32[1, 4, 8]
  %y = untile(%y0, %y1) {dim=0} : f32[2, 4, 8]
  return %y
}
)"));
  auto tiles = TilesOf(program, Lanes(program));
  for (const char* name : {"x0", "x1", "r0", "r1", "y0", "y1"}) {
    const std::optional<TileOf>& tile = tiles[program.FindValue(name)];
    ASSERT_TRUE(tile.has_value()) << name;
    EXPECT_EQ(tile->place.dim, 0) << name;
  }
}

// One part of each shard, gathered, is one part of each of as many blocks, and
// whoever undoes the gather undoes that.
TEST(TilesOf, PlacesDoNotMoveWithTheAxes) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 local
mesh (sp=2)

program @f(%x: f32[16@sp, 3]) -> (f32[16@sp, 3]) {
  %x0 = tile(%x) {dim=0, part=0, of=2, blocks=2} : f32[8@sp, 3]
  %x1 = tile(%x) {dim=0, part=1, of=2, blocks=2} : f32[8@sp, 3]
  %g0 = all_gather(%x0) {dim=0, axes=sp} : f32[8, 3]
  %g1 = all_gather(%x1) {dim=0, axes=sp} : f32[8, 3]
  %r0 = reshape(%g0) {shape=[4, 2, 3]} : f32[4, 2, 3]
  %r1 = reshape(%g1) {shape=[4, 2, 3]} : f32[4, 2, 3]
  %b0 = reshape(%r0) {shape=[8, 3]} : f32[8, 3]
  %b1 = reshape(%r1) {shape=[8, 3]} : f32[8, 3]
  %s0 = shard(%b0) {dim=0, axes=sp} : f32[8@sp, 3]
  %s1 = shard(%b1) {dim=0, axes=sp} : f32[8@sp, 3]
  %y = untile(%s0, %s1) {dim=0, blocks=2} : f32[16@sp, 3]
  return %y
}
)"));
  auto tiles = TilesOf(program, Lanes(program));
  for (const char* name : {"x0", "x1", "g0", "g1", "b0", "b1", "s0", "s1"}) {
    const auto& tile = tiles[program.FindValue(name)];
    ASSERT_TRUE(tile.has_value()) << name;
    EXPECT_EQ(tile->place, (TilePlace{0, 4})) << name;
    EXPECT_EQ(tile->whole.size(0), 16) << name;
    EXPECT_EQ(tile->tiles, 2) << name;
  }
  // [16, 3] as [8, 2, 3] or [4, 4, 3]: either is joined to the same bytes.
  ASSERT_TRUE(tiles[program.FindValue("r0")].has_value());
  EXPECT_EQ(tiles[program.FindValue("r0")]->whole.num_elements(), 48);
}

TEST(TilesOf, SumsOverTheTiledDimensionAreNoTiles) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 local

program @f(%x: f32[8, 8]) -> (f32[1, 8]) {
  %x0 = tile(%x) {dim=0, part=0, of=2} : f32[4, 8]
  %x1 = tile(%x) {dim=0, part=1, of=2} : f32[4, 8]
  %s0 = reduce_sum(%x0) {dims=[0]} : f32[1, 8]
  %s1 = reduce_sum(%x1) {dims=[0]} : f32[1, 8]
  %y = add(%s0, %s1) : f32[1, 8]
  return %y
}
)"));
  auto tiles = TilesOf(program, Lanes(program));
  EXPECT_TRUE(tiles[program.FindValue("x0")].has_value());
  EXPECT_FALSE(tiles[program.FindValue("s0")].has_value());
  EXPECT_FALSE(tiles[program.FindValue("y")].has_value());
}

// The first matmul and those added to it are of their own lanes, the sum and
// what reads it are of none.
TEST(Lanes, SumsAreOfNone) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 local

program @f(%x: f32[8, 4]) -> (f32[4, 4]) {
  %x0 = tile(%x) {dim=0, part=0, of=2} : f32[4, 4]
  %x1 = tile(%x) {dim=0, part=1, of=2} : f32[4, 4]
  %s0 = matmul_wgrad(%x0, %x0) : f32[4, 4]
  %s1 = fusion(%x1, %s0) {
    %2 = matmul_wgrad(%0, %0) : f32[4, 4]
    %3 = add(%1, %2) : f32[4, 4]
    return %3
  } : f32[4, 4]
  %y = neg(%s1) : f32[4, 4]
  return %y
}
)"));
  Lanes lanes(program);
  EXPECT_EQ(lanes.of_op, (std::vector<int>{0, 1, 0, 1, kNoLane}));
  auto tiles = TilesOf(program, lanes);
  EXPECT_FALSE(tiles[program.FindValue("s1")].has_value());
}

// A residual of the same lane is a tile as its sum is.
TEST(Lanes, ResidualsOfALaneStayThere) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 local

program @f(%x: f32[8, 4], %w: f32[4, 4], %b: f32[4]) -> (f32[4, 4]) {
  %x0 = tile(%x) {dim=0, part=0, of=2} : f32[4, 4]
  %y0 = fusion(%x0, %w, %b) {
    %3 = matmul(%0, %1) : f32[4, 4]
    %4 = add(%3, %2) : f32[4, 4]
    return %4
  } : f32[4, 4]
  %z0 = fusion(%y0, %w, %x0) {
    %3 = matmul(%0, %1) : f32[4, 4]
    %4 = add(%3, %2) : f32[4, 4]
    return %4
  } : f32[4, 4]
  %u0 = neg(%z0) : f32[4, 4]
  return %u0
}
)"));
  EXPECT_EQ(Lanes(program).of_op, (std::vector<int>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace asyra
