#include "passes/lanes.h"

#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

// [4, 8] as [1, 4, 8] could be half of [1, 8, 8] as well: the untile says of
// what it is.
TEST(TileDims, OfTilesOfOneBatch) {
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
  std::vector<int> dims = TileDims(program, Lanes(program));
  for (const char* name : {"x0", "x1", "r0", "r1", "y0", "y1"}) {
    EXPECT_EQ(dims[program.FindValue(name)], 0) << name;
  }
}

}  // namespace
}  // namespace asyra
