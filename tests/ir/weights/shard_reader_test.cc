#include "ir/weights/shard_reader.h"

#include <unistd.h>

#include <filesystem>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/weights/weight_store.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

// A tensor's bytes as a file, which counts what is read of it.
class CountingSource : public ByteSource {
 public:
  explicit CountingSource(Tensor tensor) : tensor_(std::move(tensor)) {}

  absl::Status Read(int64_t offset, absl::Span<std::byte> to) const override {
    auto size = static_cast<int64_t>(to.size());
    if (offset < 0 || offset + size > tensor_.bytes()) {
      return Invalid("counting source: [{}, {}) of {} bytes", offset,
                     offset + size, tensor_.bytes());
    }
    std::memcpy(to.data(), tensor_.data() + offset, to.size());
    bytes_read += size;
    return absl::OkStatus();
  }

  // The tensor as a view of this file. Its memory is not there: only Read is.
  static Tensor View(const std::shared_ptr<const CountingSource>& source) {
    return Tensor::View(source->tensor_.dtype(), source->tensor_.shape(),
                        nullptr, source, 0);
  }

  mutable int64_t bytes_read = 0;

 private:
  Tensor tensor_;
};

Tensor Counting(DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.SetInt(i, i + 1);
  return tensor;
}

// `tensor` with zeros behind each dimension.
Tensor Grown(const Tensor& tensor, const Shape& shape) {
  Tensor whole = tensor;
  for (int d = 0; d < tensor.rank(); ++d) {
    Shape more = whole.shape();
    more[d] = shape[d] - whole.size(d);
    whole = Tensor::Concat({{whole, Tensor(tensor.dtype(), more)}}, d);
  }
  return whole;
}

Type RandomSharding(std::mt19937_64& random, const Mesh& mesh, DType dtype,
                    const Shape& shape) {
  Type type(dtype, shape);
  for (int a = 0; a < mesh.num_axes() && type.rank() > 0; ++a) {
    Dim& dim = type.dims[random() % type.dims.size()];
    dim.axes.push_back(static_cast<AxisId>(a));
    if (dim.size % mesh.size(dim.axes) != 0) dim.axes.pop_back();
  }
  return type;
}

TEST(ReadShard, ReadsItsPartAndNothingElse) {
  std::mt19937_64 random(1);
  Mesh mesh = *Mesh::Create({{"a", 2}, {"b", 3}, {"c", 2}});
  int strided = 0;
  for (int round = 0; round < 300; ++round) {
    Shape shape;
    for (int d = static_cast<int>(random() % 4); d > 0; --d) {
      shape.push_back(static_cast<int64_t>(1 + random() % 4) * 3);
    }
    Tensor tensor = Counting(round % 2 ? DType::kBF16 : DType::kI64, shape);
    Type type = RandomSharding(random, mesh, tensor.dtype(), shape);
    int64_t device = static_cast<int64_t>(random() % 12);
    auto source = std::make_shared<CountingSource>(tensor);
    Tensor shard = ASYRA_VALUE(
        ReadShard(CountingSource::View(source), type, mesh, device));
    EXPECT_TRUE(SameBytes(shard, Shard(tensor, type, mesh, device)))
        << ToString(type, mesh) << " on " << device;
    EXPECT_EQ(source->bytes_read, type.Local(mesh).bytes());
    strided += type.rank() > 1 && !type.dims[1].axes.empty();
  }
  EXPECT_GT(strided, 50);
}

TEST(ReadShard, WhatIsNotStoredIsZeroAndNotRead) {
  std::mt19937_64 random(2);
  Mesh mesh = *Mesh::Create({{"a", 2}, {"b", 4}});
  int empty = 0;
  for (int round = 0; round < 300; ++round) {
    Shape stored, shape;
    for (int d = static_cast<int>(1 + random() % 3); d > 0; --d) {
      stored.push_back(static_cast<int64_t>(1 + random() % 8));
      shape.push_back((stored.back() + 7) / 8 * 8);
    }
    Tensor tensor = Counting(DType::kI32, stored);
    Type type = RandomSharding(random, mesh, DType::kI32, shape);
    int64_t device = static_cast<int64_t>(random() % 8);
    Tensor expected = Shard(Grown(tensor, shape), type, mesh, device);
    auto source = std::make_shared<CountingSource>(tensor);
    Tensor from_file = ASYRA_VALUE(
        ReadShard(CountingSource::View(source), type, mesh, device));
    EXPECT_TRUE(SameBytes(from_file, expected)) << ToString(type, mesh);
    EXPECT_TRUE(SameBytes(ASYRA_VALUE(ReadShard(tensor, type, mesh, device)),
                          expected));
    int64_t nonzero = 0;
    for (int64_t value : expected.ToInts()) nonzero += value != 0;
    EXPECT_EQ(source->bytes_read, nonzero * 4);
    empty += nonzero == 0;
  }
  EXPECT_GT(empty, 5);  // shards that are padding alone
}

TEST(ReadShard, SlicesAndReshapedViewsAreReadFromTheFile) {
  Tensor tensor = Counting(DType::kF32, {4, 6});
  auto source = std::make_shared<CountingSource>(tensor);
  Tensor part = CountingSource::View(source).Slice(0, 2, 2).Reshaped({2, 2, 3});
  Mesh mesh = *Mesh::Create({{"a", 2}});
  Type type(DType::kF32, {2, 2, 3});
  type.dims[1].axes = {0};
  Tensor shard = ASYRA_VALUE(ReadShard(part, type, mesh, 1));
  EXPECT_THAT(shard.ToInts(), ::testing::ElementsAre(16, 17, 18, 22, 23, 24));
  EXPECT_EQ(source->bytes_read, 24);
}

class RankWeights : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::path(::testing::TempDir()) /
             ("rank" + std::to_string(::getpid()) + ".safetensors"))
                .string();
    WeightStore weights;
    weights.Set("w", Counting(DType::kF32, {6, 5}));
    ASYRA_CHECK_OK(WriteWeights(weights, path_));
    program_.weights = ASYRA_VALUE(ReadWeights(path_));
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string ErrorOf(const Program& program) {
    auto shards = ReadRankWeights(program, 1);
    return shards.ok() ? "no error" : std::string(MessageOf(shards.status()));
  }

  std::string path_;
  Program program_ = ASYRA_VALUE(ParseProgram(R"(asyra 1 local
mesh (tp=2)
program @f(%x: f32[4, 6], %w: f32[6, 6@tp] weight padded from [6, 5])
    -> (f32[4, 6@tp]) {
  %y = matmul(%x, %w) : f32[4, 6@tp]
  return %y
}
)"));
};

TEST_F(RankWeights, AreReadFromFiles) {
  auto shards = ASYRA_VALUE(ReadRankWeights(program_, 1));
  ASSERT_EQ(shards.size(), 2u);
  EXPECT_EQ(shards[0].shape(), Shape({0}));  // no weight
  EXPECT_THAT(shards[1].ToInts(),
              ::testing::ElementsAre(4, 5, 0, 9, 10, 0, 14, 15, 0, 19, 20, 0,
                                     24, 25, 0, 29, 30, 0));
}

TEST_F(RankWeights, WhatDoesNotFitIsAnError) {
  Program other = program_;
  other.inputs[1].stored = {6, 4};
  EXPECT_THAT(ErrorOf(other),
              HasSubstr("the data of weight %w is f32[6,5], the program takes "
                        "f32[6,4]"));
  other.weights = nullptr;
  EXPECT_THAT(ErrorOf(other), HasSubstr("weight %w has no data"));
}

TEST_F(RankWeights, AFileThatWasCutIsAnError) {
  ASSERT_EQ(::truncate(path_.c_str(), 100), 0);
  EXPECT_THAT(ErrorOf(program_),
              ::testing::AllOf(HasSubstr("weight %w: " + path_),
                               HasSubstr("the file ends")));
}

}  // namespace
}  // namespace asyra
