#include "ir/tensor.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ir/op_case.h"

namespace asyra {
namespace {

using testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Half, KnownValues) {
  struct {
    float value;
    uint16_t bits;
  } cases[] = {
      {0.0f, 0x0000},         {-0.0f, 0x8000},      {1.0f, 0x3c00},
      {-2.0f, 0xc000},        {0.1f, 0x2e66},       {65504.0f, 0x7bff},
      {65519.0f, 0x7bff},     {65520.0f, 0x7c00},   {1e10f, 0x7c00},
      {-kInf, 0xfc00},        {0x1p-14f, 0x0400},   {0x1p-24f, 0x0001},
      {0x1p-25f, 0x0000},     {0x1.8p-25f, 0x0001}, {0x1.8p-24f, 0x0002},
      {0x1.ff8p-15f, 0x03ff}, {0x1.002p0f, 0x3c00}, {0x1.006p0f, 0x3c02},
  };
  for (auto [value, bits] : cases) {
    EXPECT_EQ(FloatToHalf(value), bits) << value;
  }
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(NAN))));
}

TEST(BFloat16, KnownValues) {
  struct {
    float value;
    uint16_t bits;
  } cases[] = {
      {0.0f, 0x0000},      {-0.0f, 0x8000},
      {1.0f, 0x3f80},      {-2.0f, 0xc000},
      {0.1f, 0x3dcd},      {0x1.01p0f, 0x3f80},
      {0x1.03p0f, 0x3f82}, {0x1.010002p0f, 0x3f81},
      {-kInf, 0xff80},     {std::numeric_limits<float>::max(), 0x7f80},
      {3.0e38f, 0x7f62},
  };
  for (auto [value, bits] : cases) {
    EXPECT_EQ(FloatToBFloat16(value), bits) << value;
  }
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(NAN))));
  // A NaN whose payload is in the low half stays one.
  EXPECT_TRUE(std::isnan(
      BFloat16ToFloat(FloatToBFloat16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Half, EveryValueSurvivesAndNeighboursRoundToTheNearer) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    uint16_t half = static_cast<uint16_t>(bits);
    float value = HalfToFloat(half), bf16 = BFloat16ToFloat(half);
    if (!std::isnan(value)) {
      ASSERT_EQ(FloatToHalf(value), half);
    }
    if (!std::isnan(bf16)) {
      ASSERT_EQ(FloatToBFloat16(bf16), half);
    }
    if ((bits & 0x7fff) >= 0x7bff) continue;  // up to the largest finite
    float next = HalfToFloat(static_cast<uint16_t>(bits + 1));
    ASSERT_EQ(FloatToHalf(value + (next - value) * 0.49f), half);
    ASSERT_EQ(FloatToHalf(value + (next - value) * 0.51f), half + 1);
    ASSERT_EQ(FloatToHalf((value + next) / 2), half + (half & 1));
  }
}

TEST(Tensor, ValuesAreRoundedAndSaturated) {
  auto rounded = [](DType dtype, double value) {
    return Tensor::FromDoubles(dtype, {1}, {value}).Get(0);
  };
  EXPECT_EQ(rounded(DType::kI32, 1e20), 2147483647.0);
  EXPECT_EQ(rounded(DType::kI32, -2.9), -2.0);
  EXPECT_EQ(rounded(DType::kI64, NAN), 0.0);
  EXPECT_EQ(rounded(DType::kBool, 0.5), 1.0);
  EXPECT_EQ(rounded(DType::kF32, 0.1), 0.1f);
  EXPECT_EQ(rounded(DType::kF64, 0.1), 0.1);
  EXPECT_EQ(rounded(DType::kBF16, 257.0), 256.0);
  Tensor large = Tensor::FromInts(DType::kI64, {2}, {INT64_MAX, INT64_MIN});
  EXPECT_THAT(large.ToInts(), ElementsAre(INT64_MAX, INT64_MIN));
}

TEST(Tensor, EachElementTypeHoldsSmallIntegers) {
  for (DType dtype : kAllDTypes) {
    Tensor tensor = Tensor::FromDoubles(dtype, {2}, {1, 0});
    EXPECT_EQ(tensor.bytes(), 2 * SizeOf(dtype));
    EXPECT_THAT(tensor.ToDoubles(), ElementsAre(1, 0));
    EXPECT_THAT(tensor.ToInts(), ElementsAre(1, 0));
  }
}

Tensor Counted(const Shape& shape) {
  Tensor tensor(DType::kI64, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.SetInt(i, i);
  return tensor;
}

TEST(Tensor, SliceTakesRowsOfADimension) {
  Tensor x = Counted({2, 3, 2});
  EXPECT_THAT(x.Slice(1, 1, 2).ToInts(), ElementsAre(2, 3, 4, 5, 8, 9, 10, 11));
  EXPECT_THAT(x.Slice(0, 1, 1).ToInts(), ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_EQ(x.Slice(2, 1, 0).shape(), (Shape{2, 3, 0}));
}

TEST(Tensor, ConcatUndoesSlice) {
  Tensor x = Counted({4, 6, 2});
  for (int dim = 0; dim < 3; ++dim) {
    Tensor first = x.Slice(dim, 0, 1);
    Tensor rest = x.Slice(dim, 1, x.size(dim) - 1);
    EXPECT_TRUE(SameBytes(Tensor::Concat({first, rest}, dim), x));
  }
}

TEST(Tensor, ShardHoldsTheDevicesPart) {
  Mesh mesh = ParseMesh("(a=2, b=2)");
  Tensor x = Counted({4, 2});
  auto shard = [&](std::string_view type, int64_t device) {
    return Shard(x, ASYRA_VALUE(ParseType(type, mesh)), mesh, device).ToInts();
  };
  // Device 1 is a=0, b=1.
  EXPECT_THAT(shard("i64[4@(a,b),2]", 1), ElementsAre(2, 3));
  EXPECT_THAT(shard("i64[4@(b,a),2]", 1), ElementsAre(4, 5));
  EXPECT_THAT(shard("i64[4@a,2@b]", 1), ElementsAre(1, 3));
  EXPECT_THAT(shard("i64[4@a,2]", 2), ElementsAre(4, 5, 6, 7));
}

TEST(Tensor, UnshardUndoesShard) {
  Mesh mesh = ParseMesh("(a=2, b=3, c=2)");
  Tensor x = Counted({12, 4, 6});
  for (std::string_view text :
       {"i64[12,4,6]", "i64[12@(a,b),4,6@c]", "i64[12@(c,b),4@a,6]",
        "i64[12@(b,c,a),4,6]", "i64[12,4@c,6@b]"}) {
    Type type = ASYRA_VALUE(ParseType(text, mesh));
    std::vector<Tensor> shards;
    for (int64_t device = 0; device < mesh.num_devices(); ++device) {
      shards.push_back(Shard(x, type, mesh, device));
    }
    EXPECT_TRUE(SameBytes(Unshard(shards, type, mesh), x)) << text;
  }
  Tensor scalar = Counted({});
  std::vector<Tensor> copies(mesh.num_devices(), scalar);
  EXPECT_TRUE(SameBytes(
      Unshard(copies, ASYRA_VALUE(ParseType("i64[]", mesh)), mesh), scalar));
}

}  // namespace
}  // namespace asyra
