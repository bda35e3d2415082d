// Attention and convolution in the sizes and types that cuDNN takes, and beside
// them what it leaves to our own kernels, against the interpreter.
#include "executor/cuda/device/cuda_device.h"
#include "executor/cuda/device/cuda_platform.h"
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "tests/support/kernel_case.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

// What weights and sums of a few hundred small numbers lose in half precision.
constexpr double kHalfTolerance = 2e-2;

class HalfPrecision : public testing::TestWithParam<Sample> {};

TEST_P(HalfPrecision, ComputesWhatTheReferenceDoes) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  OpCase op_case{nullptr, GetParam(), 0};
  Mesh mesh = op_case.mesh();
  if (mesh.num_devices() > *gpus) GTEST_SKIP() << "too few GPUs";
  ParsedCall call = op_case.Parse();
  op_case.def = call.def;
  Program program = ProgramOf(call, mesh);
  std::vector<Tensor> inputs = InputsOf(program, op_case);
  auto want = Interpret(program, inputs);
  ASSERT_TRUE(want.ok()) << want.status();
  for (bool graphs : {false, true}) {
    auto platform = ASYRA_VALUE(CreateCudaPlatform({.graphs = graphs}));
    auto got = RunOnThreads(program, inputs, *platform,
                            {.executor = {.debug_memory = true},
                             .repeat = 2,
                             .check_deterministic = true});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_THAT(got->fallback_ops, testing::IsEmpty());
    for (size_t i = 0; i < want->size(); ++i) {
      EXPECT_TRUE(Near(got->outputs[i], (*want)[i], kHalfTolerance))
          << ToString(program);
    }
  }
}

constexpr Sample kSamples[] = {
    {"attention(bf16[2,128,4,64], bf16[2,128,4,64], bf16[2,128,4,64]) "
     "{scale=0.05}"},
    {"attention(f16[2,128,8,128], f16[2,128,2,128], f16[2,128,2,128]) "
     "{causal=true, scale=0.03}"},
    {"attention(bf16[1,40,8,64], bf16[1,200,1,64], bf16[1,200,1,64]) "
     "{causal=true, offset=160, scale=0.05}"},
    {"attention(bf16[1,40,2,64], bf16[1,200,2,64], bf16[1,200,2,64]) "
     "{causal=true, offset=60, scale=0.05}"},
    {"attention(bf16[1,200,2,64], bf16[1,100,2,64], bf16[1,100,2,64]) "
     "{causal=true, offset=20, scale=0.05}"},
    {"attention(bf16[2,192,4,64], bf16[2,192,2,64], bf16[2,192,2,64]) "
     "{causal=true, window=50, scale=0.05}"},
    {"attention(bf16[1,64,4,64], bf16[1,256,2,64], bf16[1,256,2,64]) "
     "{causal=true, window=50, offset=100, scale=0.05}"},
    {"attention(f16[1,128,4,64], f16[1,128,4,64], f16[1,128,4,64]) "
     "{window=20, window_after=30, scale=0.05}"},
    {"attention(bf16[2,64,4,64], bf16[2,64,4,64], bf16[2,64,4,32]) "
     "{causal=true, scale=0.05, hidden=-3e38}"},
    {"attention(bf16[3,64,4,64], bf16[3,96,2,64], bf16[3,96,2,64], i64[3]) "
     "{scale=0.05}",
     0, 2},
    {"attention(bf16[3,64,4,64], bf16[3,96,2,64], bf16[3,96,2,64], i32[3]) "
     "{causal=true, scale=0.05}",
     1, 3},
    {"attention(f16[4,1,8,64], f16[4,96,2,64], f16[4,96,2,64], i64[4]) "
     "{causal=true, at_end=true, scale=0.05}",
     1, 3},
    {"attention(f16[4,1,8,64], f16[4,96,2,64], f16[4,96,2,64], i64[4]) "
     "{causal=true, window=2, at_end=true, scale=0.05}",
     1, 3},
    {"attention(bf16[1,64@a,4,64], bf16[1,64,2,64], bf16[1,64,2,64]) "
     "{causal=true, scale=0.05}",
     -2, 2, "(a=2)"},
    // Left to our own kernels.
    {"attention(bf16[2,70,4,64], bf16[2,90,2,64], bf16[2,90,2,64], "
     "bool[2,1,70,90]) {scale=0.05}"},
    {"attention(f16[2,70,4,40], f16[2,90,2,40], f16[2,90,2,24], "
     "f16[1,4,1,90], i64[2], f16[4]) {causal=true, offset=20, softcap=3.0, "
     "scale=0.05}",
     1, 2},
    // Heads of 60 are left to kernels that keep weights in single precision.
    {"attention_grad(bf16[1,70,4,60], bf16[1,70,2,60], bf16[1,70,2,60], "
     "bf16[1,70,4,60], f32[1,4,70], bf16[1,70,4,60], f32[4]) "
     "{of=\"qkv\", causal=true, scale=0.05}",
     -1, 1},
    {"attention_grad(f16[2,70,4,40], f16[2,90,2,40], f16[2,90,2,24], "
     "f16[2,70,4,24], f32[2,4,70], f16[2,70,4,24], i64[2]) "
     "{of=\"qkv\", causal=true, window=30, scale=0.05}",
     -1, 1},
    {"attention(bf16[2,200,4,128], bf16[2,300,2,128], bf16[2,300,2,128], "
     "bool[1,1,200,300]) {causal=true, offset=100, scale=0.05}"},
    {"attention(bf16[1,140,4,256], bf16[1,140,2,256], bf16[1,140,2,256], "
     "bf16[1,4,140,140], f32[4]) {softcap=5.0, window=33, scale=0.05}"},
    {"attention(f16[2,140,4,80], f16[2,141,2,80], f16[2,141,2,80], "
     "f32[2,1,140,141], i64[2]) {scale=0.05}",
     1, 3},
    // Masks that the copy engine brings, and one for which there is no room.
    {"attention(bf16[2,200,4,128], bf16[2,296,2,128], bf16[2,296,2,128], "
     "bf16[1,4,200,296]) {scale=0.05}"},
    {"attention(f16[2,136,4,64], f16[2,264,2,64], f16[2,264,2,64], "
     "bf16[2,1,136,264], i64[2]) {causal=true, offset=128, softcap=3.0, "
     "scale=0.05}",
     1, 3},
    {"attention(bf16[1,136,4,256], bf16[1,136,2,256], bf16[1,136,2,256], "
     "bf16[1,4,136,136]) {window=33, scale=0.05, log_sums=true}"},
    {"attention(bf16[1,136,2,192], bf16[1,136,2,192], bf16[1,136,2,128], "
     "bf16[1,2,136,136]) {scale=0.05}"},
    // Documents: rows that see keys from a place of their own on, any or none.
    {"attention(bf16[2,300,4,128], bf16[2,300,2,128], bf16[2,300,2,128], "
     "i64[2,300]) {causal=true, scale=0.05, log_sums=true}",
     0, 300},
    {"attention(f16[1,140,4,80], f16[1,260,2,80], f16[1,260,2,80], "
     "i32[1,140]) {window=90, softcap=3.0, scale=0.05}",
     -20, 280},
    {"attention(bf16[2,136,4,64], bf16[2,264,2,64], bf16[2,264,2,64], "
     "bf16[1,4,136,264], i64[2,136], f32[4]) {scale=0.05}",
     -2, 200},
    {"attention(bf16[1,40,4,60], bf16[1,40,2,60], bf16[1,40,2,60], "
     "i64[1,40]) {causal=true, scale=0.05}",
     0, 40},
    // With log sums.
    {"attention(bf16[2,128,4,64], bf16[2,128,2,64], bf16[2,128,2,64]) "
     "{causal=true, scale=0.05, log_sums=true}"},
    {"attention(f16[1,40,2,64], f16[1,200,2,64], f16[1,200,2,64]) "
     "{causal=true, offset=160, scale=0.05, log_sums=true}"},
    {"attention(bf16[3,64,4,64], bf16[3,96,2,64], bf16[3,96,2,64], i32[3]) "
     "{causal=true, scale=0.05, log_sums=true}",
     1, 3},
    {"conv(bf16[2,16,14,14], bf16[32,16,3,3]) {pads=[1, 1, 1, 1]}", -1, 1},
    {"conv(f16[2,3,32,32], f16[64,3,16,16]) {strides=[16, 16]}", -1, 1},
    {"conv(f16[2,16,50], f16[16,4,3]) {strides=[2], pads=[1, 1]}", -1, 1},
};

INSTANTIATE_TEST_SUITE_P(Attention, HalfPrecision, testing::ValuesIn(kSamples));

// Weights and gradients of scores are rounded to 16 bits before they are
// summed.
constexpr double kGradientTolerance = 1e-2;  // of a result's largest element

struct GradientCase {
  std::string_view q, k, v, y, log_sums, attrs;
  std::string_view extra = "";  // the type of a mask, lengths or sinks
};

// Attention and its gradients in a program, so that results fit operands.
Program GradientProgram(const GradientCase& c) {
  bool more = !c.extra.empty();
  return ParseVerified(fmt::format(
      "asyra 1 global\n"
      "program @main(%q: {0}, %k: {1}, %v: {2}, %dy: {3}{6}) -> "
      "({3}, {4}, {0}, {1}, {2}) {{\n"
      "  %y, %l = attention(%q, %k, %v{7}) {{{5}, log_sums=true}} : {3}, {4}\n"
      "  %dq, %dk, %dv = attention_grad(%q, %k, %v, %y, %l, %dy{7}) "
      "{{{5}, of=\"qkv\"}} : {0}, {1}, {2}\n"
      "  return %y, %l, %dq, %dk, %dv\n"
      "}}\n",
      c.q, c.k, c.v, c.y, c.log_sums, c.attrs,
      more ? fmt::format(", %extra: {}", c.extra) : "",
      more ? ", %extra" : ""));
}

// Makes integers of each row of a batch the starts of documents of 45 rows,
// others for each entry.
void MakeStarts(Tensor* tensor) {
  if (!IsInteger(tensor->dtype()) || tensor->rank() != 2) return;
  int64_t rows = tensor->shape()[1];
  for (int64_t i = 0; i < tensor->num_elements(); ++i) {
    int64_t row = i % rows, place = (row + 13 * (i / rows)) % 45;
    tensor->SetInt(i, std::max<int64_t>(0, row - place));
  }
}

double Largest(const Tensor& tensor) {
  double largest = 0;
  for (double value : tensor.ToDoubles()) {
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

class HalfPrecisionGradients : public testing::TestWithParam<GradientCase> {};

// Not twice with equal bytes: cuDNN sums dq by atomic additions.
TEST_P(HalfPrecisionGradients, AreThoseOfTheReference) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  Program program = GradientProgram(GetParam());
  std::vector<Tensor> inputs =
      InputsOf(program, OpCase{nullptr, Sample{"", -2, 2}, 7});
  for (Tensor& input : inputs) MakeStarts(&input);
  auto want = Interpret(program, inputs);
  ASSERT_TRUE(want.ok()) << want.status();
  auto platform = ASYRA_VALUE(CreateCudaPlatform({}));
  auto got = RunOnThreads(program, inputs, *platform,
                          {.executor = {.debug_memory = true}, .repeat = 2});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->fallback_ops, testing::IsEmpty());
  for (size_t i = 0; i < want->size(); ++i) {
    std::vector<double> a = got->outputs[i].ToDoubles(),
                        b = (*want)[i].ToDoubles();
    double most = kGradientTolerance * Largest((*want)[i]), off = 0;
    for (size_t n = 0; n < a.size(); ++n) {
      // A NaN is no smaller than anything.
      off = off >= std::abs(a[n] - b[n]) ? off : std::abs(a[n] - b[n]);
    }
    EXPECT_LE(off, most) << "result " << i << " of\n" << ToString(program);
  }
}

constexpr GradientCase kGradients[] = {
    {"bf16[2,128,4,64]", "bf16[2,128,4,64]", "bf16[2,128,4,64]",
     "bf16[2,128,4,64]", "f32[2,4,128]", "scale=0.05"},
    {"f16[2,128,8,128]", "f16[2,128,2,128]", "f16[2,128,2,128]",
     "f16[2,128,8,128]", "f32[2,8,128]", "causal=true, scale=0.03"},
    {"bf16[2,192,4,64]", "bf16[2,192,2,64]", "bf16[2,192,2,64]",
     "bf16[2,192,4,64]", "f32[2,4,192]", "causal=true, window=50, scale=0.05"},
    // Keys before the first that a row sees, and none at the end.
    {"bf16[1,64,4,64]", "bf16[1,256,2,64]", "bf16[1,256,2,64]",
     "bf16[1,64,4,64]", "f32[1,4,64]",
     "causal=true, window=50, offset=100, scale=0.05"},
    {"bf16[1,40,8,64]", "bf16[1,200,1,64]", "bf16[1,200,1,64]",
     "bf16[1,40,8,64]", "f32[1,8,40]", "causal=true, offset=160, scale=0.05"},
    {"bf16[3,64,4,64]", "bf16[3,96,2,64]", "bf16[3,96,2,64]", "bf16[3,64,4,64]",
     "f32[3,4,64]", "causal=true, scale=0.05", "i32[3]"},
    // Left to our own kernels.
    {"bf16[2,70,4,64]", "bf16[2,290,2,64]", "bf16[2,290,2,64]",
     "bf16[2,70,4,64]", "f32[2,4,70]", "scale=0.05", "bool[2,1,70,290]"},
    {"f16[2,150,4,128]", "f16[2,150,2,128]", "f16[2,150,2,128]",
     "f16[2,150,4,128]", "f32[2,4,150]", "causal=true, scale=0.05",
     "f16[1,4,150,150]"},
    {"bf16[1,150,4,192]", "bf16[1,150,2,192]", "bf16[1,150,2,128]",
     "bf16[1,150,4,128]", "f32[1,4,150]",
     "causal=true, softcap=3.0, window=40, scale=0.05", "f32[4]"},
    {"bf16[1,70,4,64]", "bf16[1,70,2,64]", "bf16[1,70,2,64]", "bf16[1,70,4,64]",
     "f32[1,4,70]", "causal=true, scale=0.05", "f32[4]"},
    {"bf16[2,70,2,80]", "bf16[2,131,2,80]", "bf16[2,131,2,80]",
     "bf16[2,70,2,80]", "f32[2,2,70]", "scale=0.05", "f32[2,1,1,131]"},
    {"f16[2,70,4,40]", "f16[2,90,2,40]", "f16[2,90,2,24]", "f16[2,70,4,24]",
     "f32[2,4,70]", "causal=true, offset=20, softcap=3.0, scale=0.05"},
    // Documents.
    {"bf16[2,300,4,128]", "bf16[2,300,2,128]", "bf16[2,300,2,128]",
     "bf16[2,300,4,128]", "f32[2,4,300]", "causal=true, scale=0.05",
     "i64[2,300]"},
    {"f16[2,200,4,64]", "f16[2,200,2,64]", "f16[2,200,2,64]", "f16[2,200,4,64]",
     "f32[2,4,200]", "causal=true, window=30, softcap=3.0, scale=0.05",
     "i32[2,200]"},
    {"bf16[2,100,2,60]", "bf16[2,100,2,60]", "bf16[2,100,2,60]",
     "bf16[2,100,2,60]", "f32[2,2,100]", "causal=true, scale=0.05",
     "i64[2,100]"},
    // Masks that the copy engine brings.
    {"bf16[2,136,4,128]", "bf16[2,200,2,128]", "bf16[2,200,2,128]",
     "bf16[2,136,4,128]", "f32[2,4,136]", "scale=0.05", "bf16[1,4,136,200]"},
    {"f16[2,136,4,64]", "f16[2,200,2,64]", "f16[2,200,2,64]", "f16[2,136,4,64]",
     "f32[2,4,136]", "window=40, softcap=3.0, scale=0.05", "bf16[2,1,136,200]"},
};

INSTANTIATE_TEST_SUITE_P(Attention, HalfPrecisionGradients,
                         testing::ValuesIn(kGradients));

}  // namespace
}  // namespace asyra
