// Packed rows of experts at sizes that take several tiles, by the kernels of
// tensor cores and by ordinary ones: experts without rows, with all of them,
// ends in the middle of a tile, groups, and rows that other experts have.
#include <cmath>
#include <limits>

#include "executor/cuda/device/cuda_device.h"
#include "executor/cuda/device/cuda_platform.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "tests/support/kernel_case.h"

namespace asyra {
namespace {

struct Rows {
  int64_t groups, group_rows, in, out;
  std::vector<int64_t> counts;  // of each group in turn, by expert

  int64_t rows() const { return groups * group_rows; }
  int64_t experts() const {
    return static_cast<int64_t>(counts.size()) / groups;
  }
};

Tensor EndsOf(const Rows& rows) {
  Tensor ends(DType::kI32, {rows.groups, rows.experts()});
  int64_t end = 0;
  for (size_t i = 0; i < rows.counts.size(); ++i) {
    if (i % rows.experts() == 0) end = 0;
    end += rows.counts[i];
    ends.Set(static_cast<int64_t>(i), static_cast<double>(end));
  }
  return ends;
}

Tensor Small(const Type& type, std::mt19937_64* random) {
  Tensor tensor(type.dtype, type.shape());
  std::uniform_int_distribution<int> number(-2, 2);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.Set(i, number(*random));
  }
  return tensor;
}

// Sums of small integers are exact in f32, and rounded once.
void ExpectAsInterpreted(const std::string& call, const Tensor& ends,
                         int ends_operand) {
  SCOPED_TRACE(call);
  ParsedCall parsed = ASYRA_VALUE(ParseCall(call, {}));
  Program program = ProgramOf(parsed, {});
  std::mt19937_64 random(7);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Type& type = program.type(program.inputs[i].value);
    inputs.push_back(
        static_cast<int>(i) == ends_operand ? ends : Small(type, &random));
  }
  auto want = Interpret(program, inputs);
  ASSERT_TRUE(want.ok()) << want.status();
  static Platform* const platform =
      ASYRA_VALUE(CreateCudaPlatform({.graphs = false})).release();
  auto got = RunOnThreads(program, inputs, *platform,
                          {.executor = {.debug_memory = true}, .repeat = 2});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE(Near(got->outputs[0], (*want)[0], 0));
}

TEST(PackedRows, AreMultipliedByTheWeightsOfTheirExperts) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  const Rows kCases[] = {
      {1, 300, 72, 200, {130, 0, 1, 128, 41}},  // tails of all dimensions
      {2, 256, 64, 256, {0, 256, 0, 100, 28, 128}},
      {1, 200, 40, 24, {0, 0, 200, 0}},
      {3, 64, 130, 66, {10, 54, 64, 0, 1, 63}},  // rows at odd addresses
      {1, 70, 9, 7, {30, 40}}};
  for (const Rows& r : kCases) {
    Tensor ends = EndsOf(r);
    for (const char* dtype : {"bf16", "f16", "f32", "f64"}) {
      std::string x = fmt::format("{}[{},{}]", dtype, r.rows(), r.in);
      std::string e = fmt::format("i32[{},{}]", r.groups, r.experts());
      ExpectAsInterpreted(fmt::format("packed_matmul({}, {}[{},{},{}], {})", x,
                                      dtype, r.experts(), r.in, r.out, e),
                          ends, 2);
      ExpectAsInterpreted(
          fmt::format(
              "packed_matmul({}, {}[{},{},{}], {}) {{transpose_b=true}}", x,
              dtype, r.experts(), r.out, r.in, e),
          ends, 2);
      ExpectAsInterpreted(fmt::format("packed_wgrad({}, {}[{},{}], {})", x,
                                      dtype, r.rows(), r.out, e),
                          ends, 2);
      ExpectAsInterpreted(fmt::format("packed_sum({}, {})", x, e), ends, 1);
    }
  }
}

// So many tiles that blocks have several, of which every second one is another
// warp group's.
TEST(PackedRows, FillBlocksWithSeveralTiles) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  Rows r = {
      1, 3000, 72, 1400, {300, 0, 700, 1, 63, 64, 65, 500, 127, 128, 129, 923}};
  Tensor ends = EndsOf(r);
  std::string e = fmt::format("i32[1,{}]", r.experts());
  for (bool transposed : {false, true}) {
    ExpectAsInterpreted(
        transposed
            ? fmt::format("packed_matmul(bf16[3000,72], bf16[{},1400,72], {}) "
                          "{{transpose_b=true}}",
                          r.experts(), e)
            : fmt::format("packed_matmul(bf16[3000,72], bf16[{},72,1400], {})",
                          r.experts(), e),
        ends, 2);
  }
  ExpectAsInterpreted(
      fmt::format("packed_wgrad(bf16[3000,400], bf16[3000,1000], {})", e), ends,
      2);
}

TEST(PackedRows, OfBatchesHaveTheirOwnGradients) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  Tensor ends =
      EndsOf({4, 100, 0, 0, {0, 100, 0, 64, 0, 36, 33, 33, 34, 0, 0, 100}});
  Tensor by_batch(DType::kI32, {2, 2, 3});
  for (int64_t i = 0; i < 12; ++i) by_batch.Set(i, ends.ToDoubles()[i]);
  for (const char* dtype : {"bf16", "f32"}) {
    ExpectAsInterpreted(
        fmt::format("packed_wgrad({0}[2,200,72], {0}[2,200,136], i32[2,2,3])",
                    dtype),
        by_batch, 2);
  }
}

TEST(PackedRows, SortManyChoices) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  for (auto [tokens, k, group, experts] :
       {std::array<int64_t, 4>{3000, 8, 1500, 128},
        {2048, 2, 2048, 3},
        {700, 1, 100, 2000},
        {64, 4, 8, 5}}) {
    std::mt19937_64 random(3);
    Tensor choices(DType::kI64, {tokens, k});
    for (int64_t i = 0; i < tokens * k; ++i) {
      choices.Set(i, static_cast<double>(random() % experts));
    }
    std::string call =
        fmt::format("moe_sort(i64[{},{}]) {{num_experts={}, group_size={}}}",
                    tokens, k, experts, group);
    Program program = ProgramOf(ASYRA_VALUE(ParseCall(call, {})), {});
    auto want = Interpret(program, {choices});
    ASSERT_TRUE(want.ok()) << want.status();
    auto platform = ASYRA_VALUE(CreateCudaPlatform({.graphs = false}));
    auto got = RunOnThreads(program, {choices}, *platform, {.repeat = 2});
    ASSERT_TRUE(got.ok()) << got.status();
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(Near(got->outputs[i], (*want)[i], 0)) << call;
    }
  }
}

}  // namespace
}  // namespace asyra
