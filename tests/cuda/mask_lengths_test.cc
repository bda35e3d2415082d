// Rows of masks that are no ones, then zeros, end a step on a GPU with the
// error of the cpu; rows that are give their lengths.
#include "executor/cuda/device/cuda_device.h"
#include "executor/cuda/device/cuda_platform.h"
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "tests/support/kernel_case.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

constexpr int64_t kMaskRows = 3, kMaskKeys = 1000;

// Row r has 1 at places up to 300 r.
Tensor PaddedRows(DType dtype) {
  Tensor mask(dtype, {kMaskRows, kMaskKeys});
  for (int64_t i = 0; i < mask.num_elements(); ++i) {
    mask.Set(i, i % kMaskKeys < 300 * (i / kMaskKeys) ? 1 : 0);
  }
  return mask;
}

absl::StatusOr<RunResult> RunOnGpu(const Program& program, const Tensor& mask,
                                   bool graphs) {
  auto platform = ASYRA_VALUE(CreateCudaPlatform({.graphs = graphs}));
  return RunOnThreads(program, {mask}, *platform, {.repeat = 2});
}

TEST(MaskLengths, AreCheckedOnTheGpu) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  for (const char* type : {"bool", "i32", "i64", "f32", "f64", "bf16", "f16"}) {
    Program program = Parse(fmt::format(R"(asyra 1 global
program @f(%m: {0}[3, 1000]) -> (i32[3]) {{
  %y = mask_lengths(%m) {{input="padding"}} : i32[3]
  return %y
}})",
                                        type));
    const DType dtype = program.type(program.inputs[0].value).dtype;
    for (bool graphs : {false, true}) {
      auto got = RunOnGpu(program, PaddedRows(dtype), graphs);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_THAT(got->outputs[0].ToInts(), testing::ElementsAre(0, 300, 600));
      for (auto [at, value] :
           {std::pair(1999, 1), {1298, 0}, {300, 1}, {2600, 2}}) {
        if (value == 2 && dtype == DType::kBool) continue;
        Tensor mask = PaddedRows(dtype);
        mask.Set(at, value);
        absl::Status want = Interpret(program, {mask}).status();
        absl::Status found = RunOnGpu(program, mask, graphs).status();
        ASSERT_FALSE(want.ok());
        EXPECT_THAT(
            std::string(MessageOf(found)),
            testing::HasSubstr(
                std::string(MessageOf(want))
                    .substr(std::string(MessageOf(want)).find("row "))));
      }
    }
  }
}

}  // namespace
}  // namespace asyra
