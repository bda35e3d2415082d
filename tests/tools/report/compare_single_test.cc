#include "tools/report/compare_single.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "tools/report/compare.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

// The first two outputs round to f16 and bf16 on their way to f32; the third
// reads a weight of f16, which rounds nothing, and the last is f16 itself.
Program Example() {
  return ASYRA_VALUE(ParseProgram(R"(asyra 1 global
program @f(%x: f32[2, 2], %w: f16[2, 2])
    -> (f32[2, 2], f32[2, 2], f32[2, 2], f16[2, 2]) {
  %h = cast(%x) {to=f16} : f16[2, 2]
  %m = matmul(%h, %w) : f16[2, 2]
  %a = cast(%m) {to=f32} : f32[2, 2]
  %n = cast(%a) {to=bf16} : bf16[2, 2]
  %b = cast(%n) {to=f32} : f32[2, 2]
  %v = cast(%w) {to=f32} : f32[2, 2]
  %c = matmul(%x, %v) : f32[2, 2]
  return %a, %b, %c, %m
}
)"));
}

TEST(CompareSingle, TheLeastExactTypeOnTheWayDecides) {
  Program program = Example();
  double f16 = ShardedToleranceFor(DType::kF16);
  EXPECT_EQ(ShardedToleranceOf(program, 0), f16);
  EXPECT_EQ(ShardedToleranceOf(program, 1), ShardedToleranceFor(DType::kBF16));
  EXPECT_EQ(ShardedToleranceOf(program, 2), ShardedToleranceFor(DType::kF32));
  EXPECT_EQ(ShardedToleranceOf(program, 3), f16);
}

TEST(CompareSingle, WhatIsBeyondItIsAnError) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 global
program @f(%x: f32[2]) -> (f32[2]) {
  return %x as "y"
}
)"));
  std::vector<Tensor> x = {Tensor::FromDoubles(DType::kF32, {2}, {1, 2})};
  std::vector<Tensor> off = {Tensor::FromDoubles(DType::kF32, {2}, {1, 2.1})};
  EXPECT_EQ(ASYRA_VALUE(CompareSingle(program, x, x))[0].error, 0);
  EXPECT_THAT(std::string(MessageOf(CompareSingle(program, x, off).status())),
              HasSubstr("output %y is off the result of one device by 0.05 of "
                        "its largest magnitude, the tolerance is 1e-05"));
}

}  // namespace
}  // namespace asyra
