#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

constexpr std::string_view kMlpDown = R"(asyra 1 scheduled
mesh (dp=2, tp=4)

program @mlp_down(%h: bf16[8192@dp, 16384@tp],
    %w: bf16[16384@tp, 4096] weight) -> (bf16[8192@dp, 4096]) {
  %h0 = tile(%h) {dim=0, part=0, of=2} on compute : bf16[4096@dp, 16384@tp]
  %p0 = matmul(%h0, %w) on compute : bf16[4096@dp, 4096] partial(tp)
  %f0 = start all_reduce(%p0) {axes=tp} on tp : future bf16[4096@dp, 4096]
  %h1 = tile(%h) {dim=0, part=1, of=2} on compute : bf16[4096@dp, 16384@tp]
  %p1 = matmul(%h1, %w) {sm_margin=16} on compute : bf16[4096@dp, 4096] partial(tp)
  %f1 = start all_reduce(%p1) {axes=tp} on tp : future bf16[4096@dp, 4096]
  %y0 = wait(%f0) on compute : bf16[4096@dp, 4096]
  %y1 = wait(%f1) on compute : bf16[4096@dp, 4096]
  %y = untile(%y0, %y1) {dim=0} on compute : bf16[8192@dp, 4096]
  return %y
}
)";

TEST(ParsePrint, ScheduledProgramRoundTripsExactly) {
  absl::StatusOr<Program> program = ParseProgram(kMlpDown);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(ToString(*program), kMlpDown);
}

TEST(ParsePrint, ScheduleAttributesFollowABody) {
  constexpr std::string_view kText = R"(asyra 1 scheduled

program @f(%a: f32[8, 16], %w: f32[16, 12] weight, %b: f32[12] weight) -> (f32[8, 12]) {
  %y = fusion(%a, %w, %b) {
    %3 = matmul(%0, %1) : f32[8, 12]
    %4 = add(%3, %2) : f32[8, 12]
    return %4
  } {sm_margin=8} on compute : f32[8, 12]
  return %y
}
)";
  absl::StatusOr<Program> program = ParseProgram(kText);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(SmMargin(program->ops[0].attrs), 8);
  EXPECT_THAT(ToString(*program),
              testing::HasSubstr("  } {sm_margin=8} on compute : f32"));
  EXPECT_EQ(ToString(*ParseProgram(ToString(*program))), ToString(*program));
  std::string inside(kText);
  inside.replace(inside.find("%1) : f32"), 3, "%1) {sm_margin=8}");
  EXPECT_THAT(ParseProgram(inside).status().ToString(),
              testing::HasSubstr("sm_margin is for the op that has the body"));
}

// In errors, where a joined collective would fill the screen.
TEST(ParsePrint, BriefOpsListThreeOfTheirValues) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 local
mesh (tp=2)
program @p(%a: f32[2@tp], %b: f32[2@tp], %c: f32[2@tp], %d: f32[2@tp],
    %e: f32[2@tp]) -> (f32[2]) {
  %v, %w, %x, %y, %z = all_gather(%a, %b, %c, %d, %e) {axes=tp, dim=0} : f32[2], f32[2], f32[2], f32[2], f32[2]
  %s = add(%v, %w) : f32[2]
  return %s
}
)"));
  EXPECT_EQ(Brief(program, program.ops[0]),
            "%v, %w, %x and 2 more = all_gather(%a, %b, %c and 2 more) "
            "{dim=0, axes=tp} : f32[2], f32[2], f32[2] and 2 more");
  EXPECT_EQ(Brief(program, program.ops[1]), ToString(program, program.ops[1]));
}

TEST(ParsePrint, PaddedWeights) {
  constexpr std::string_view kText = R"(asyra 1 global

program @f(%x: f32[8, 16],
    %w: f32[16, 12] weight padded from [16, 10]) -> (f32[8, 12]) {
  %y = matmul(%x, %w) : f32[8, 12]
  return %y
}
)";
  absl::StatusOr<Program> program = ParseProgram(kText);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->inputs[1].stored, Shape({16, 10}));
  EXPECT_EQ(program->GivenShape(program->inputs[1]), Shape({16, 10}));
  EXPECT_EQ(program->GivenShape(program->inputs[0]), Shape({8, 16}));
  EXPECT_EQ(ToString(*program), kText);
}

}  // namespace
}  // namespace asyra
