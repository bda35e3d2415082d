// Fusions on the cpu, op by op: intermediate values are in the workspace,
// and results may overwrite operands that later ops of the body read.
#include "gmock/gmock.h"
#include "ir/support/status.h"
#include "tests/executor/as_interpreted.h"
#include "tests/executor/ranks.h"

namespace asyra {
namespace {

// What is not computed of small integers alone is rounded.
void ExpectSplitAndSame(const std::string& text) {
  RunResult run;
  ExpectSameAsInterpreted(Parse(text), /*tolerance=*/1e-5, &run);
  EXPECT_THAT(run.fallback_ops, testing::IsEmpty());
  EXPECT_EQ(run.split_fusions.size(), 1u);
}

// Both results overwrite operands that the second op still reads.
TEST(Fusion, ResultsOnOperandsThatAreReadAgain) {
  ExpectSplitAndSame(R"(asyra 1 allocated
program @f(%x: f32[4, 8] at 0, %y: f32[4, 8] at 128) -> (f32[4, 8], f32[4, 8]) {
  %a, %b = fusion(%x, %y) {
    %2 = sub(%0, %1) : f32[4, 8]
    %3 = add(%0, %1) : f32[4, 8]
    return %2, %3
  } on compute : f32[4, 8] at 128, f32[4, 8] at 0
  return %a, %b
}
)");
}

// A norm is not computed in place, and a sum is.
TEST(Fusion, ANormOverItsResidual) {
  ExpectSplitAndSame(R"(asyra 1 allocated
program @f(%x: f32[4, 8] at 0, %y: f32[4, 8] at 128, %w: f32[8] at 256)
    -> (f32[4, 8], f32[4, 8]) {
  %s, %n = fusion(%x, %y, %w) {
    %3 = add(%0, %1) : f32[4, 8]
    %4 = rms_norm(%3, %2) {eps=0.5} : f32[4, 8]
    return %3, %4
  } on compute : f32[4, 8] at 128, f32[4, 8] at 0
  return %s, %n
}
)");
}

TEST(Fusion, OverAMesh) {
  ExpectSplitAndSame(R"(asyra 1 local
mesh (dp=2, tp=2)
program @f(%x: bf16[4@dp, 2, 8], %y: bf16[4@dp, 2, 8], %b: bf16[8])
    -> (f32[4@dp, 2, 8], f32[4@dp, 2]) {
  %s, %n = fusion(%x, %y, %b) {
    %3 = broadcast(%2) {shape=[4, 2, 8]} : bf16[4@dp, 2, 8]
    %4 = mul(%0, %3) : bf16[4@dp, 2, 8]
    %5 = swiglu(%4, %1) : bf16[4@dp, 2, 8]
    %6 = cast(%5) {to=f32} : f32[4@dp, 2, 8]
    %7 = reduce_mean(%6) {dims=[2], keep=false} : f32[4@dp, 2]
    return %6, %7
  } : f32[4@dp, 2, 8], f32[4@dp, 2]
  return %s, %n
}
)");
}

// Matmuls, whose result is not written over what they read.
TEST(Fusion, AMatmulWithBiasAndResidual) {
  ExpectSplitAndSame(R"(asyra 1 local
mesh (dp=2, tp=2)
program @f(%x: f32[4@dp, 2, 6], %w: f32[8@tp, 6], %b: f32[8@tp],
    %r: f32[4@dp, 2, 8@tp]) -> (f32[4@dp, 2, 8@tp]) {
  %y = fusion(%x, %w, %b, %r) {
    %4 = matmul(%0, %1) {transpose_b=true} : f32[4@dp, 2, 8@tp]
    %5 = add(%4, %2) : f32[4@dp, 2, 8@tp]
    %6 = add(%5, %3) : f32[4@dp, 2, 8@tp]
    %7 = gelu_tanh(%6) : f32[4@dp, 2, 8@tp]
    return %7
  } : f32[4@dp, 2, 8@tp]
  return %y
}
)");
}

TEST(Fusion, AMatmulMayNotOverwriteWhatItReads) {
  Program program = Parse(R"(asyra 1 allocated
program @f(%x: f32[8, 8] at 0, %w: f32[8, 8] at 256) -> (f32[8, 8]) {
  %y = fusion(%x, %w) {
    %2 = matmul(%0, %1) : f32[8, 8]
    %3 = relu(%2) : f32[8, 8]
    return %3
  } on compute : f32[8, 8] at 0
  return %y
}
)");
  absl::Status status = Verify(program);
  EXPECT_THAT(std::string(MessageOf(status)),
              testing::HasSubstr("%y at [0, 256) overwrites %x"));
}

// What is smaller than the loop may be read by all of its rows.
TEST(Fusion, SmallResultsMayNotLieOnOperands) {
  Program program = Parse(R"(asyra 1 allocated
program @f(%x: f32[4, 8] at 0, %y: f32[8] at 128) -> (f32[8], f32[4, 8]) {
  %s, %n = fusion(%x, %y) {
    %2 = neg(%1) : f32[8]
    %3 = add(%0, %2) : f32[4, 8]
    return %2, %3
  } on compute : f32[8] at 128, f32[4, 8] at 0
  return %s, %n
}
)");
  absl::Status status = Verify(program);
  EXPECT_THAT(std::string(MessageOf(status)),
              testing::HasSubstr("%s at [128, 160) overwrites %y"));
}

}  // namespace
}  // namespace asyra
