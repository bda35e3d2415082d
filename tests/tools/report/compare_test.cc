#include "tools/report/compare.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

Tensor Floats(const std::vector<double>& values) {
  return Tensor::FromDoubles(DType::kF64, {static_cast<int64_t>(values.size())},
                             values);
}

Comparison Of(const std::vector<double>& actual,
              const std::vector<double>& expected) {
  return ASYRA_VALUE(Compare(Floats(actual), Floats(expected),
                             {.relative = 0.01, .absolute = 0.1}));
}

TEST(Compare, ToleranceIsAbsolutePlusRelative) {
  EXPECT_EQ(Of({100, 0}, {101, 0.1}).wrong, 0);
  Comparison c = Of({0, 102, 5}, {0, 100, 6});
  EXPECT_EQ(c.wrong, 2);
  EXPECT_EQ(c.first_wrong, 1);
  EXPECT_EQ(c.max_abs_error, 2);
  EXPECT_NEAR(c.max_rel_error, 1.0 / 6, 1e-15);
}

TEST(Compare, NotNumbersAgreeWithTheirEqualsOnly) {
  double nan = std::nan(""), inf = INFINITY;
  EXPECT_EQ(Of({nan, inf, -inf}, {nan, inf, -inf}).wrong, 0);
  EXPECT_EQ(Of({nan}, {1}).wrong, 1);
  EXPECT_EQ(Of({1}, {nan}).wrong, 1);
  EXPECT_EQ(Of({1}, {inf}).wrong, 1);
  EXPECT_EQ(Of({inf}, {-inf}).wrong, 1);
  EXPECT_EQ(Of({1}, {nan}).max_abs_error, inf);
}

TEST(Compare, HalfAgainstWhatWasRecordedInFloat) {
  Tensor half = Tensor::FromDoubles(DType::kF16, {2}, {1, 3});
  Tensor full = Tensor::FromDoubles(DType::kF32, {2}, {1.001, 3});
  EXPECT_EQ(ASYRA_VALUE(Compare(half, full, ToleranceFor(DType::kF16))).wrong,
            0);
  EXPECT_EQ(ASYRA_VALUE(Compare(half, full, ToleranceFor(DType::kF32))).wrong,
            1);
  EXPECT_FALSE(Compare(full, half, ToleranceFor(DType::kF32)).ok());
}

TEST(Compare, ErrorsRelativeToTheLargestMagnitude) {
  EXPECT_EQ(ErrorOfLargest(Of({1, 3}, {2, -4})), 7.0 / 4);
  EXPECT_EQ(ErrorOfLargest(Of({INFINITY, 3}, {INFINITY, 4})), 1.0 / 4);
  EXPECT_EQ(ErrorOfLargest(Of({0, 0}, {0, 0})), 0);
  EXPECT_EQ(ErrorOfLargest(Of({1, 0}, {0, 0})), INFINITY);
  EXPECT_EQ(ErrorOfLargest(Of({std::nan(""), 0}, {1, 0})), INFINITY);
}

TEST(Compare, IntegersAreExact) {
  auto big = [](int64_t value) {
    return Tensor::FromInts(DType::kI64, {1}, {value});
  };
  int64_t a = (int64_t{1} << 53) + 1;
  EXPECT_EQ(ASYRA_VALUE(Compare(big(a), big(a), {})).wrong, 0);
  EXPECT_EQ(ASYRA_VALUE(Compare(big(a), big(a - 1), {.relative = 1})).wrong, 1);
}

TEST(Compare, OtherTypesAreErrors) {
  auto status = Compare(Floats({1, 2}), Floats({1}), {}).status();
  EXPECT_THAT(std::string(MessageOf(status)),
              HasSubstr("it is f64[2], expected is f64[1]"));
  status = Compare(Floats({1}), Tensor(DType::kF16, {1}), {}).status();
  EXPECT_THAT(std::string(MessageOf(status)),
              HasSubstr("it is f64[1], expected is f16[1]"));
  status = Compare(Floats({1}), Tensor(DType::kI64, {1}), {}).status();
  EXPECT_THAT(std::string(MessageOf(status)),
              HasSubstr("it is f64[1], expected is i64[1]"));
  // As --dtype f64 beside a file of f32.
  EXPECT_EQ(
      ASYRA_VALUE(Compare(Floats({0}), Tensor(DType::kF32, {1}), {})).wrong, 0);
}

TEST(Summary, SaysWhatIsThere) {
  EXPECT_EQ(Summary(Floats({1, -2, 4})), "min -2, max 4, mean 1");
  EXPECT_EQ(Summary(Floats({})), "empty");
}

}  // namespace
}  // namespace asyra
