// Fusions on the cpu, op by op: what lies between the ops is in the workspace,
// and results may lie on operands that later ops of the body read.
#include "executor/cpu/run_on_cpu.h"
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/ir/op_case.h"

namespace asyra {
namespace {

void ExpectSameAsInterpreted(std::string_view text) {
  Program program = ASYRA_VALUE(ParseProgram(text));
  ASSERT_EQ(Verify(program), absl::OkStatus());
  std::mt19937_64 random(Seed());
  std::vector<Tensor> inputs;
  for (const Input& input : program.inputs) {
    inputs.push_back(
        SmallIntegers(program.type(input.value).Global(), -3, 3, &random));
  }
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(program, inputs));
  for (bool debug : {false, true}) {
    auto got = RunOnCpu(program, inputs, {.executor = {.debug_memory = debug}});
    ASSERT_TRUE(got.ok()) << got.status() << "\nseed " << Seed();
    EXPECT_THAT(got->fallback_ops, testing::IsEmpty());
    EXPECT_EQ(got->split_fusions.size(), 1u);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(Near(got->outputs[i], want[i], 1e-5)) << "output " << i;
    }
  }
}

// Both results lie on operands that the second op still reads.
TEST(Fusion, ResultsOnOperandsThatAreReadAgain) {
  ExpectSameAsInterpreted(R"(asyra 1 allocated
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
  ExpectSameAsInterpreted(R"(asyra 1 allocated
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
  ExpectSameAsInterpreted(R"(asyra 1 local
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

// Products, whose result does not lie on what they read.
TEST(Fusion, AProductWithBiasAndResidual) {
  ExpectSameAsInterpreted(R"(asyra 1 local
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

TEST(Fusion, AProductMayNotOverwriteWhatItReads) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 allocated
program @f(%x: f32[8, 8] at 0, %w: f32[8, 8] at 256) -> (f32[8, 8]) {
  %y = fusion(%x, %w) {
    %2 = matmul(%0, %1) : f32[8, 8]
    %3 = relu(%2) : f32[8, 8]
    return %3
  } on compute : f32[8, 8] at 0
  return %y
}
)"));
  absl::Status status = Verify(program);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("%y at [0, 256) overwrites %x"));
}

// What is smaller than the loop may be read by all of its rows.
TEST(Fusion, SmallResultsMayNotLieOnOperands) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 allocated
program @f(%x: f32[4, 8] at 0, %y: f32[8] at 128) -> (f32[8], f32[4, 8]) {
  %s, %n = fusion(%x, %y) {
    %2 = neg(%1) : f32[8]
    %3 = add(%0, %2) : f32[4, 8]
    return %2, %3
  } on compute : f32[8] at 128, f32[4, 8] at 0
  return %s, %n
}
)"));
  absl::Status status = Verify(program);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("%s at [128, 160) overwrites %y"));
}

}  // namespace
}  // namespace asyra
