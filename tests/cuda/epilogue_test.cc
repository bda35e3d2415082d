// Matmuls with epilogues as models have them: each is one call of cuBLASLt,
// and what it gives is within the rounding of the ops one by one.
#include "executor/cuda/device/cuda_device.h"
#include "executor/cuda/device/cuda_platform.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "ir/builder.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "tests/support/kernel_case.h"

namespace asyra {
namespace {

// On small integers; `whole`: whether one kernel computes each fusion.
void ExpectAsReference(const Program& program, bool whole) {
  std::mt19937_64 random(Seed());
  std::vector<Tensor> inputs;
  for (const Input& input : program.inputs) {
    inputs.push_back(SmallIntegers(program.type(input.value), -1, 1, &random));
  }
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(program, inputs));
  auto platform = ASYRA_VALUE(CreateCudaPlatform({}));
  auto got = RunOnThreads(program, inputs, *platform,
                          {.executor = {.debug_memory = true}, .repeat = 2});
  ASSERT_TRUE(got.ok()) << got.status() << "\nseed " << Seed();
  EXPECT_THAT(got->fallback_ops, testing::IsEmpty());
  EXPECT_EQ(got->split_fusions.empty(), whole);
  EXPECT_TRUE(Near(got->outputs[0], want[0], kKernelTolerance))
      << "seed " << Seed();
}

void ExpectAsReference(std::string_view text, bool whole) {
  SCOPED_TRACE(text);
  ParsedCall call = ASYRA_VALUE(ParseCall(text, Mesh()));
  ExpectAsReference(ProgramOf(call, Mesh()), whole);
}

// The result on the last operand, which is made in the program, so that it may
// be written over.
void ExpectInPlace(std::string_view text) {
  SCOPED_TRACE(text);
  ParsedCall call = ASYRA_VALUE(ParseCall(text, Mesh()));
  Builder builder({}, Stage::kLocal);
  std::vector<ValueId> operands;
  for (const Type& type : call.operands) {
    operands.push_back(builder.Input("x", type));
  }
  operands.back() = ASYRA_VALUE(builder.AddOne("neg", {operands.back()}));
  ValueId sum =
      ASYRA_VALUE(builder.AddOne(call.def->name, operands, call.attrs));
  builder.Output(sum);
  Program program = std::move(builder).Finish();
  program.stage = Stage::kAllocated;
  for (Op& op : program.ops) op.stream = program.Stream("compute");
  for (ValueId value : {operands.back(), sum}) {
    program.values[value].offset = 0;
  }
  ExpectAsReference(program, /*whole=*/true);
}

TEST(Epilogue, IsOneCall) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  // Sums of so few small integers are exact in half precision.
  for (const char* type : {"bf16", "f16"}) {
    auto sized = [&](std::string text) {
      for (size_t at; (at = text.find('T')) != std::string::npos;) {
        text.replace(at, 1, type);
      }
      return text;
    };
    ExpectAsReference(sized("fusion(T[2,64,48], T[48,96], T[96]) {"
                            "%3 = matmul(%0, %1) : T[2,64,96] "
                            "%4 = add(%3, %2) : T[2,64,96] "
                            "%5 = relu(%4) : T[2,64,96] return %5}"),
                      true);
    ExpectAsReference(sized("fusion(T[64,48], T[96,48], T[96], T[64,96]) {"
                            "%4 = matmul(%0, %1) {transpose_b=true} : T[64,96] "
                            "%5 = add(%4, %2) : T[64,96] "
                            "%6 = add(%3, %5) : T[64,96] return %6}"),
                      true);
    ExpectAsReference(
        sized("fusion(T[3,64,48], T[3,48,96], T[3,64,96], T[96]) {"
              "%4 = matmul(%0, %1) : T[3,64,96] "
              "%5 = add(%4, %2) : T[3,64,96] "
              "%6 = add(%5, %3) : T[3,64,96] "
              "%7 = relu(%6) : T[3,64,96] return %7}"),
        true);
  }
  ExpectAsReference(
      "fusion(bf16[2,64,48], bf16[48,96], bf16[96]) {"
      "%3 = matmul(%0, %1) : bf16[2,64,96] "
      "%4 = add(%3, %2) : bf16[2,64,96] "
      "%5 = gelu_tanh(%4) : bf16[2,64,96] return %5}",
      true);
  ExpectAsReference(
      "fusion(f32[48,64], f32[48,96], f32[96]) {"
      "%3 = matmul(%0, %1) {transpose_a=true} : f32[64,96] "
      "%4 = add(%3, %2) : f32[64,96] "
      "%5 = relu(%4) : f32[64,96] return %5}",
      true);
}

// gelu in single precision, functions that cuBLASLt has not.
TEST(Epilogue, IsSplitWhereTheLibraryHasNone) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  for (const char* last : {"gelu_tanh", "silu"}) {
    ExpectAsReference(fmt::format("fusion(f32[64,48], f32[48,96], f32[96]) {{"
                                  "%3 = matmul(%0, %1) : f32[64,96] "
                                  "%4 = add(%3, %2) : f32[64,96] "
                                  "%5 = {}(%4) : f32[64,96] return %5}}",
                                  last),
                      false);
  }
}

// A matmul added to what it is written over (ir/accumulation.h): C and D of
// the call are one matrix.
TEST(Epilogue, AddsToItsResult) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  for (const char* text : {"fusion(bf16[2,32,64], bf16[2,32,96], f32[64,96]) {"
                           "%3 = matmul_wgrad(%0, %1) : f32[64,96] "
                           "%4 = add(%3, %2) : f32[64,96] return %4}",
                           "fusion(f16[4,32,64], f16[4,32,96], f32[4,64,96]) {"
                           "%3 = matmul_wgrad(%0, %1) {keep=1} : f32[4,64,96] "
                           "%4 = add(%2, %3) : f32[4,64,96] return %4}",
                           "fusion(f32[48,64], f32[48,96], f32[64,96]) {"
                           "%3 = matmul_wgrad(%0, %1) : f32[64,96] "
                           "%4 = add(%3, %2) : f32[64,96] return %4}",
                           "fusion(bf16[64,48], bf16[48,96], bf16[64,96]) {"
                           "%3 = matmul(%0, %1) : bf16[64,96] "
                           "%4 = add(%3, %2) : bf16[64,96] return %4}"}) {
    ExpectAsReference(text, true);
    ExpectInPlace(text);
  }
}

}  // namespace
}  // namespace asyra
