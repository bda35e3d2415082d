// Computations with an SM margin: they compute the same, and kernels on other
// streams need not wait for their end.
#include <algorithm>

#include "executor/cuda/device/cuda_device.h"
#include "executor/cuda/device/cuda_platform.h"
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "tests/executor/ranks.h"
#include "tests/support/kernel_case.h"

namespace asyra {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What weights and sums of a few hundred small numbers lose in half precision.
constexpr double kHalfTolerance = 2e-2;

constexpr std::string_view kComputations[] = {
    R"(asyra 1 scheduled
program @matmul(%a: bf16[256, 128], %b: bf16[384, 128]) -> (bf16[256, 384]) {
  %y = matmul(%a, %b) {transpose_b=true, sm_margin=8} on compute : bf16[256, 384]
  return %y
}
)",
    R"(asyra 1 scheduled
program @experts(%a: f32[3, 64, 48], %b: f32[3, 48, 96]) -> (f32[3, 64, 96]) {
  %y = grouped_matmul(%a, %b) {sm_margin=8} on compute : f32[3, 64, 96]
  return %y
}
)",
    R"(asyra 1 scheduled
program @biased(%a: bf16[64, 48], %b: bf16[48, 96], %c: bf16[96]) -> (bf16[64, 96]) {
  %y = fusion(%a, %b, %c) {
    %3 = matmul(%0, %1) : bf16[64, 96]
    %4 = add(%3, %2) : bf16[64, 96]
    return %4
  } {sm_margin=8} on compute : bf16[64, 96]
  return %y
}
)",
    R"(asyra 1 scheduled
program @attention(%q: bf16[2, 128, 4, 64], %k: bf16[2, 128, 2, 64], %v: bf16[2, 128, 2, 64])
    -> (bf16[2, 128, 4, 64]) {
  %y = attention(%q, %k, %v) {causal=true, scale=0.125, sm_margin=8} on compute : bf16[2, 128, 4, 64]
  return %y
}
)",
    // By a kernel of our own.
    R"(asyra 1 scheduled
program @attention(%q: f32[2, 70, 4, 40], %k: f32[2, 70, 2, 40], %v: f32[2, 70, 2, 40])
    -> (f32[2, 70, 4, 40]) {
  %y = attention(%q, %k, %v) {causal=true, scale=0.125, sm_margin=16} on compute : f32[2, 70, 4, 40]
  return %y
}
)"};

TEST(SmMargin, ComputesTheSame) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  for (std::string_view text : kComputations) {
    Program program = Parse(text);
    std::vector<Tensor> inputs = RandomInputs(program, 1, 2);
    std::vector<Tensor> want = ASYRA_VALUE(Interpret(program, inputs));
    for (bool graphs : {false, true}) {
      auto platform = ASYRA_VALUE(CreateCudaPlatform({.graphs = graphs}));
      auto got =
          RunOnThreads(program, inputs, *platform,
                       {.executor = {.debug_memory = true}, .repeat = 3});
      ASSERT_TRUE(got.ok()) << got.status() << "\n" << text;
      EXPECT_THAT(got->fallback_ops, testing::IsEmpty());
      EXPECT_THAT(got->split_fusions, testing::IsEmpty());
      EXPECT_TRUE(Near(got->outputs[0], want[0], kHalfTolerance)) << text;
    }
  }
}

TEST(SmMargin, MoreThanThereAreIsAnError) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  auto platform = ASYRA_VALUE(CreateCudaPlatform({}));
  for (size_t i : {0, 3}) {
    std::string text(kComputations[i]);
    text.replace(text.find("sm_margin=8"), 11, "sm_margin=4000");
    Program program = Parse(text);
    auto got = RunOnThreads(program, RandomInputs(program, 1, 2), *platform,
                            RunOptions());
    EXPECT_THAT(std::string(got.status().message()),
                AllOf(HasSubstr("sm_margin is 4000, the GPU has "),
                      HasSubstr("%y = ")));
  }
}

// A matmul of more than a millisecond and, on an urgent stream, many small
// kernels, each of which has to find its place.
std::string MatmulBesideSmallOps(std::string_view attrs) {
  constexpr int kOps = 40;
  std::string text =
      "asyra 1 scheduled\n"
      "program @f(%r: bf16[1, 8192], %t0: f32[65536]) ->"
      " (bf16[8, 8], f32[65536]) {\n"
      "  %x = broadcast(%r) {shape=[8192, 8192]} on compute"
      " : bf16[8192, 8192]\n" +
      fmt::format("  %y = matmul(%x, %x){} on compute : bf16[8192, 8192]\n",
                  attrs);
  for (int i = 0; i < kOps; ++i) {
    text += fmt::format("  %t{} = neg(%t{}) on side{} : f32[65536]\n", i + 1, i,
                        i == 0 ? " after(%x)" : "");
  }
  return text + fmt::format(
                    "  %z = slice(%y) {{dim=0, start=0, stop=8}} on compute"
                    " : bf16[8, 8192]\n"
                    "  %s = slice(%z) {{dim=1, start=0, stop=8}} on compute"
                    " : bf16[8, 8]\n"
                    "  return %s, %t{}\n}}\n",
                    kOps);
}

// How long after the matmul the last of the small ops ends.
double LastAfterMatmulUs(std::string_view attrs) {
  Program program = Parse(MatmulBesideSmallOps(attrs));
  auto platform = ASYRA_VALUE(CreateCudaPlatform({.graphs = true}));
  RunResult result =
      ASYRA_VALUE(RunOnThreads(program, RandomInputs(program, 1, 2), *platform,
                               {.executor = {.profile = true}, .repeat = 3}));
  double matmul = 0, last = 0;
  for (const OpTime& time : result.profile) {
    std::string_view op = program.ops[time.op].def->name;
    if (op == "matmul") matmul = time.end_us;
    if (op == "neg") last = std::max(last, time.end_us);
  }
  return last - matmul;
}

TEST(SmMargin, LeavesRoomForWhatComesBeside) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  // Else it would say nothing that they end before the matmul with a margin.
  if (LastAfterMatmulUs("") < 0) {
    GTEST_SKIP() << "small kernels find a place beside any matmul";
  }
  EXPECT_LT(LastAfterMatmulUs(" {sm_margin=8}"), 0);
}

}  // namespace
}  // namespace asyra
