#include "ir/weights/random_tensors.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/weights/shard_reader.h"

namespace asyra {
namespace {

Tensor Read(const Tensor& tensor) { return ASYRA_VALUE(ReadWhole(tensor)); }

TEST(RandomTensors, FollowFromSeedAndName) {
  auto draw = [](uint64_t seed, std::string_view name) {
    return Read(RandomTensors(seed).Normal(name, DType::kF32, {5, 7}, 0.02));
  };
  EXPECT_TRUE(SameBytes(draw(1, "w"), draw(1, "w")));
  EXPECT_FALSE(SameBytes(draw(1, "w"), draw(2, "w")));
  EXPECT_FALSE(SameBytes(draw(1, "w"), draw(1, "v")));
}

TEST(RandomTensors, AreNormal) {
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32, DType::kF64}) {
    Tensor tensor = Read(RandomTensors(3).Normal("w", dtype, {200000}, 0.5));
    double sum = 0, squares = 0, fourth = 0;
    for (double x : tensor.ToDoubles()) {
      sum += x;
      squares += x * x;
      fourth += x * x * x * x;
      EXPECT_LT(std::abs(x), 0.5 * 4.4);
    }
    auto count = static_cast<double>(tensor.num_elements());
    EXPECT_NEAR(sum / count, 0, 0.005);
    EXPECT_NEAR(squares / count, 0.25, 0.005);
    EXPECT_NEAR(fourth / count, 3 * 0.0625, 0.01);
  }
}

TEST(RandomTensors, IntegersAreBelowTheLimit) {
  RandomTensors random(1);
  std::vector<int64_t> counts(5);
  for (DType dtype : {DType::kI32, DType::kI64}) {
    for (int64_t i : Read(random.Uniform("x", dtype, {50000}, 5)).ToInts()) {
      ASSERT_GE(i, 0);
      ASSERT_LT(i, 5);
      ++counts[i];
    }
  }
  for (int64_t count : counts) EXPECT_NEAR(count, 20000, 600);
  int64_t both = 0;
  for (int64_t i : Read(random.Uniform("x", DType::kBool, {50000}, 5)).ToInts())
    both += i;
  EXPECT_NEAR(both, 25000, 500);
}

// A shard is the same part of the whole on any mesh, however it is cut.
TEST(RandomTensors, ShardsArePartsOfTheWhole) {
  Mesh mesh = ASYRA_VALUE(Mesh::Create({{"a", 2}, {"b", 3}}));
  RandomTensors random(1);
  for (DType dtype : {DType::kBF16, DType::kF32, DType::kI64}) {
    Tensor tensor = IsFloat(dtype)
                        ? random.Normal("w", dtype, {6, 10, 3}, 1)
                        : random.Uniform("w", dtype, {6, 10, 3}, 1000);
    Tensor whole = Read(tensor);
    for (int cut = 0; cut < 4; ++cut) {
      Type type(dtype, {6, 10, 3});
      if (cut & 1) type.dims[0].axes = {1};
      if (cut & 2) type.dims[1].axes = {0};
      for (int64_t device = 0; device < 6; ++device) {
        EXPECT_TRUE(
            SameBytes(ASYRA_VALUE(ReadShard(tensor, type, mesh, device)),
                      Shard(whole, type, mesh, device)));
      }
    }
  }
}

TEST(RandomTensors, AnyBytesAreRead) {
  Tensor tensor = RandomTensors(1).Normal("w", DType::kF32, {11}, 1);
  Tensor whole = Read(tensor);
  for (int64_t begin = 0; begin < whole.bytes(); ++begin) {
    for (int64_t end = begin; end <= whole.bytes(); ++end) {
      std::vector<std::byte> bytes(end - begin);
      ASSERT_TRUE(tensor.source()->Read(begin, absl::MakeSpan(bytes)).ok());
      if (bytes.empty()) continue;
      ASSERT_EQ(std::memcmp(bytes.data(), whole.data() + begin, bytes.size()),
                0);
    }
  }
}

TEST(RandomTensors, MayBeEmpty) {
  EXPECT_EQ(Read(RandomTensors(1).Normal("w", DType::kF32, {3, 0}, 1)).bytes(),
            0);
}

}  // namespace
}  // namespace asyra
