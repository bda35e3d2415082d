// Our kernels for matmuls of few rows, each design by itself, against sums in
// double precision.
#include "executor/cuda/gemm/few_rows.h"

#include <cmath>
#include <vector>

#include "executor/cuda/device/cuda_device.h"
#include "executor/cuda/device/element_of.h"
#include "executor/cuda/device/fill.h"
#include "executor/cuda/device/scratch.h"
#include "gmock/gmock.h"
#include "ir/tensor.h"
#include "tests/support/parse.h"

namespace asyra::cuda {
namespace {

// Random elements of a GPU, and what they are.
struct Matrix {
  Scratch device;
  std::vector<double> values;

  Matrix(DType dtype, int64_t elements, uint64_t seed) {
    EXPECT_TRUE(device.Allocate(elements * SizeOf(dtype)).ok());
    EXPECT_EQ(FillRandom(ElementOf(dtype), device.data(), elements, seed, 0),
              cudaSuccess);
    values = Read(dtype, elements);
  }
  std::vector<double> Read(DType dtype, int64_t elements) const {
    Tensor host(dtype, {elements});
    EXPECT_EQ(cudaMemcpy(host.mutable_data(), device.data(), host.bytes(),
                         cudaMemcpyDeviceToHost),
              cudaSuccess);
    return host.ToDoubles();
  }
};

double Activated(Epilogue::Activation activation, double x) {
  switch (activation) {
    case Epilogue::kRelu:
      return std::max(x, 0.0);
    case Epilogue::kGeluTanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Epilogue::kNone:
      break;
  }
  return x;
}

std::vector<double> Expected(const GemmShape& s, const Matrix& a,
                             const Matrix& b, const Matrix& residual,
                             const Matrix& bias) {
  int64_t a_row = s.a_row_stride > 0 ? s.a_row_stride : s.k;
  int64_t b_row = s.b_row_stride > 0 ? s.b_row_stride : s.b_columns();
  std::vector<double> c;
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = s.epilogue.residual ? residual.values[i * s.n + j] : 0;
      if (s.epilogue.bias) sum += bias.values[j];
      for (int64_t k = 0; k < s.k; ++k) {
        sum += a.values[i * a_row + k] * b.values[j * b_row + k];
      }
      c.push_back(Activated(s.epilogue.activation, sum));
    }
  }
  return c;
}

void ExpectRight(const GemmShape& s) {
  SCOPED_TRACE(
      fmt::format("{} {} x {} x {}", ToString(s.dtype), s.m, s.n, s.k));
  Matrix a(s.dtype, s.m * std::max(s.a_row_stride, s.k), 1);
  Matrix b(s.dtype, s.b_rows() * std::max(s.b_row_stride, s.b_columns()), 2);
  Matrix residual(s.result(), s.m * s.n, 3), bias(s.dtype, s.n, 4);
  std::vector<double> want = Expected(s, a, b, residual, bias);
  std::vector<FewRowsDesign> designs = FewRowsDesigns(s);
  ASSERT_FALSE(designs.empty());
  for (const FewRowsDesign& design : designs) {
    Matrix c(s.result(), s.m * s.n, 5);
    std::unique_ptr<Gemm> gemm = ASYRA_VALUE(CreateFewRows(s, design));
    absl::Status status =
        gemm->Enqueue(a.device.data(), b.device.data(), c.device.data(),
                      {residual.device.data(), bias.device.data()}, nullptr, 0);
    ASSERT_TRUE(status.ok()) << status;
    std::vector<double> got = c.Read(s.result(), s.m * s.n);
    // Half an ulp of bf16, and what sums in f32 lose.
    double relative = s.f32_result ? 1e-5 : 4e-3;
    double absolute = 2e-4 + 1e-7 * static_cast<double>(s.k);
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], relative * std::abs(want[i]) + absolute)
          << ToText(design) << " at " << i;
    }
  }
}

TEST(FewRows, AreMultipliedByAllWeights) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  GemmShape shape = {.dtype = DType::kBF16, .transpose_b = true};
  for (int64_t m : {1, 7, 8, 31, 32, 33, 64}) {
    shape.m = m;
    shape.n = 1305;  // no multiple of anything
    shape.k = 520;
    ExpectRight(shape);
  }
  ExpectRight({.dtype = DType::kF16,
               .transpose_b = true,
               .m = 3,
               .n = 400009,  // several passes of a block
               .k = 72});
  ExpectRight({.dtype = DType::kF16,
               .transpose_b = true,
               .m = 17,
               .n = 24,  // fewer columns than blocks
               .k = 30000,
               .f32_result = true});
}

TEST(FewRows, HaveEpiloguesAndRowsThatAreApart) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  for (auto activation :
       {Epilogue::kNone, Epilogue::kRelu, Epilogue::kGeluTanh}) {
    for (bool f32 : {false, true}) {
      ExpectRight({.dtype = DType::kBF16,
                   .transpose_b = true,
                   .m = 5,
                   .n = 1032,
                   .k = 520,
                   .epilogue = {true, true, activation},
                   .f32_result = f32,
                   .a_row_stride = 528,
                   .b_row_stride = 1040});
    }
  }
}

TEST(FewRows, LeaveOthersToTheLibrary) {
  const GemmShape kTaken = {.dtype = DType::kBF16,
                            .transpose_b = true,
                            .m = 64,
                            .n = 1024,
                            .k = 1024};
  EXPECT_THAT(FewRowsDesigns(kTaken), testing::Not(testing::IsEmpty()));
  std::vector<GemmShape> others(8, kTaken);
  others[0].m = 65;
  others[1].dtype = DType::kF32;
  others[2].batch = 2;
  others[3].transpose_a = true;
  others[4].k = 1028;  // rows at odd addresses
  others[5].n = 256;   // little to read
  others[6].transpose_b = false;
  others[7].n = 65536;  // much to read
  for (const GemmShape& shape : others) {
    EXPECT_THAT(FewRowsDesigns(shape), testing::IsEmpty());
  }
  for (const FewRowsDesign& design : FewRowsDesigns(kTaken)) {
    EXPECT_EQ(ParseFewRows(ToText(design)), design);
  }
  EXPECT_EQ(ParseFewRows("few rows 7 1"), std::nullopt);
  EXPECT_EQ(ParseFewRows("0 1234"), std::nullopt);
}

}  // namespace
}  // namespace asyra::cuda
