// Kernels of training at sizes that take all of their ways: several rows for a
// block, rows that fit into no registers, rows that begin anywhere.
#include <cmath>

#include "executor/cuda/device/cuda_device.h"
#include "executor/cuda/device/cuda_platform.h"
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "tests/support/kernel_case.h"

namespace asyra {
namespace {

// Of the largest magnitude.
double ToleranceOf(DType dtype) {
  if (dtype == DType::kBF16) return 8e-3;
  return dtype == DType::kF16 ? 1e-3 : 2e-5;
}

double Largest(const Tensor& tensor) {
  double largest = 0;
  for (double value : tensor.ToDoubles()) {
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

double LargestError(const Tensor& got, const Tensor& want) {
  std::vector<double> a = got.ToDoubles(), b = want.ToDoubles();
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    // Not a number counts as an error.
    largest =
        std::abs(a[i] - b[i]) <= largest ? largest : std::abs(a[i] - b[i]);
  }
  return largest;
}

Tensor Normal(const Type& type, std::mt19937_64* random) {
  Tensor tensor(type.dtype, type.shape());
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.Set(i, normal(*random));
  }
  return tensor;
}

// Floats are drawn, integers as the sample says.
std::vector<Tensor> Inputs(const Program& program, const OpCase& op_case) {
  std::vector<Tensor> inputs = InputsOf(program, op_case);
  std::mt19937_64 random(7);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type& type = program.type(program.inputs[i].value);
    if (IsFloat(type.dtype) && type.rank() > 0) {
      inputs[i] = Normal(type, &random);
    }
  }
  return inputs;
}

class TrainKernels : public testing::TestWithParam<Sample> {};

TEST_P(TrainKernels, ComputeWhatTheReferenceDoes) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  std::string_view text = GetParam().text;
  OpCase op_case{FindOp(text.substr(0, text.find('('))), GetParam(), 0};
  ParsedCall call = op_case.Parse();
  Program program = ProgramOf(call, Mesh{});
  std::vector<Tensor> inputs = Inputs(program, op_case);
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(program, inputs));
  auto platform = ASYRA_VALUE(CreateCudaPlatform({.graphs = true}));
  auto got = RunOnThreads(program, inputs, *platform,
                          {.executor = {.debug_memory = true}, .repeat = 2});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->fallback_ops, testing::IsEmpty());
  ASSERT_EQ(got->outputs.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    double largest = Largest(want[i]);
    EXPECT_LE(LargestError(got->outputs[i], want[i]),
              ToleranceOf(want[i].dtype()) * largest)
        << "result " << i << ", the largest is " << largest;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Norms, TrainKernels,
    testing::Values(
        Sample{"rms_norm_grad(f32[600,1024], f32[1024], f32[600,1024]) "
               "{eps=1e-5}"},
        Sample{"rms_norm_grad(bf16[600,4096], bf16[4096], bf16[600,4096], "
               "bf16[600,4096]) {eps=1e-5}"},
        Sample{"rms_norm_grad(f32[300,4096], f32[4096], f32[300,4096]) "
               "{eps=1e-5}"},
        Sample{"rms_norm_grad(f32[150,8192], f32[8192], f32[150,8192], "
               "f32[150,8192]) {eps=1e-5}"},
        Sample{"rms_norm_grad(f32[20,9000], f32[9000], f32[20,9000], "
               "f32[20,9000]) {eps=1e-5}"},
        Sample{"rms_norm_grad(f64[300,130], f64[130], f64[300,130]) "
               "{eps=1e-5}"},
        Sample{"layer_norm_grad(bf16[1500,768], bf16[768], bf16[1500,768]) "
               "{eps=1e-5, bias=true}"},
        Sample{"layer_norm_grad(bf16[1001,768], bf16[768], bf16[1001,768], "
               "bf16[1001,768]) {eps=1e-5, bias=true}"},
        Sample{"layer_norm_grad(f16[70,1000], f16[1000], f16[70,1000]) "
               "{eps=1e-5}"},
        Sample{"rms_norm_grad(bf16[3,500,128], bf16[128], bf16[3,500,128]) "
               "{eps=1e-6}"},
        Sample{"rms_norm_grad(bf16[2000,512], bf16[512], bf16[2000,512], "
               "bf16[2000,512]) {eps=1e-6}"},
        Sample{"rms_norm_grad(bf16[3,8], bf16[8], bf16[3,8]) {eps=1e-6}"},
        Sample{"layer_norm_grad(f16[300,5120], f16[5120], f16[300,5120]) "
               "{eps=1e-5, bias=true}"},
        Sample{"layer_norm_grad(f32[150,8192], f32[8192], f32[150,8192]) "
               "{eps=1e-5}"},
        Sample{"layer_norm_grad(bf16[700,1030], bf16[1030], bf16[700,1030]) "
               "{eps=1e-5, bias=true}"}));

INSTANTIATE_TEST_SUITE_P(
    Losses, TrainKernels,
    testing::Values(
        Sample{"cross_entropy_parts(bf16[32,50257], i64[32])", 0, 50256},
        Sample{"cross_entropy_parts(f32[16,32064], i32[16]) {parts=2, "
               "classes=32000}",
               0, 31999},
        Sample{"cross_entropy_parts_grad(bf16[32,50257], i64[32], f32[32,1], "
               "f32[32,1], f32[32,1])",
               0, 50256},
        Sample{"cross_entropy_parts_grad(f32[16,32064], i32[16], f32[16,2], "
               "f32[16,2], f32[16,2]) {classes=32000}",
               0, 31999}));

INSTANTIATE_TEST_SUITE_P(
    Tables, TrainKernels,
    testing::Values(
        Sample{"segment_sum(f32[300,256], i64[300]) {dim=0, size=50}", 0, 49},
        Sample{"segment_sum(bf16[500,768], i32[500]) {dim=0, size=7}", 0, 6},
        Sample{"segment_sum(f32[2,40,132], i64[2,40]) {dim=0, size=3000}", 0,
               2999},
        Sample{"segment_sum(f32[9000,128], i64[9000]) {dim=0, size=3}", 0, 2},
        Sample{"segment_sum(f32[5000,256], i32[5000]) {dim=0, size=2000}",
               -2000, 1999},
        Sample{"segment_sum(f64[90,6], i64[90]) {dim=0, size=8}", 0, 7}));

INSTANTIATE_TEST_SUITE_P(
    Updates, TrainKernels,
    testing::Values(
        Sample{"reduce_sum_square(f32[1000,4096]) {dims=[0, 1], keep=false}"},
        Sample{"reduce_sum_square(bf16[300,777]) {dims=[0, 1], keep=false}"},
        Sample{"reduce_sum(bf16[2,1024,768]) {dims=[0, 1], wide=true}"},
        Sample{"reduce_sum(f32[1030,1036]) {dims=[0]}"},
        Sample{"reduce_sum(bf16[33,512,600]) {dims=[0], wide=true}"},
        Sample{"reduce_sum(f16[300,8]) {dims=[0], keep=false, wide=true}"}));

}  // namespace
}  // namespace asyra
