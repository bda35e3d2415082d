#include <limits>

#include "executor/train/token_batches.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

TEST(TokenLimit, IsOfTablesThatTokensLookUp) {
  // Positions look up a smaller table, and a gradient adds up rows.
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 global

program @f(%ids: i64[2, 4], %at: i64[4],
    %table: f32[32, 3] weight padded from [30, 3], %places: f32[4, 3] weight,
    %other: f32[3, 40] weight, %more: i64[4])
    -> (f32[2, 4, 3], f32[8, 3], f32[32, 3], f64[4, 3]) {
  %x = embedding(%table, %ids) : f32[2, 4, 3]
  %p = gather(%places, %at) {dim=0} : f32[4, 3]
  %h = add(%x, %p) : f32[2, 4, 3]
  %flat = reshape(%ids) {shape=[8]} : i64[8]
  %columns = gather(%other, %flat) {dim=1} : f32[3, 8]
  %y = transpose(%columns) {perm=[1, 0]} : f32[8, 3]
  %g = segment_sum(%h, %ids) {dim=0, size=32} : f32[32, 3]
  %wide = cast(%table) {to=f64} : f64[32, 3]
  %z = embedding(%wide, %more) {rows=29} : f64[4, 3]
  return %h, %y, %g, %z
}
)"));
  EXPECT_EQ(TokenLimit(program, program.FindValue("ids")), 30);
  EXPECT_EQ(TokenLimit(program, program.FindValue("flat")), 40);
  EXPECT_EQ(TokenLimit(program, program.FindValue("more")), 29);
  EXPECT_EQ(TokenLimit(program, program.FindValue("at")), 4);
  EXPECT_EQ(TokenLimit(program, program.FindValue("x")),
            std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace asyra
