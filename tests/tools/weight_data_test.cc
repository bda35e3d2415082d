#include "tools/weight_data.h"

#include <unistd.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/weights/shard_reader.h"
#include "ir/weights/weight_store.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Program Example() {
  return ASYRA_VALUE(ParseProgram(R"(asyra 1 global
program @f(%x: f32[2, 3], %up: f32[3, 4] weight, %down: f32[4, 3] weight)
    -> (f32[2, 3]) {
  %u = matmul(%x, %up) : f32[2, 4]
  %y = matmul(%u, %down) : f32[2, 3]
  return %y
}
)"));
}

Tensor Zeros(DType dtype, const Shape& shape) { return Tensor(dtype, shape); }

TEST(WeightData, IsAddedToWeightsThatHaveNone) {
  Program program = Example();
  EXPECT_THAT(WeightsWithoutData(program), ElementsAre("up", "down"));
  NamedTensors data = {{"x", Zeros(DType::kF32, {2, 3})},
                       {"up", Zeros(DType::kF32, {3, 4})}};
  ASYRA_CHECK_OK(AddWeightData(data, &program));
  EXPECT_THAT(WeightsWithoutData(program), ElementsAre("down"));
  EXPECT_EQ(program.weights->Find("x"), nullptr);
  NamedTensors others = Without({"up", "down"}, data);
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(others[0].first, "x");
}

TEST(WeightData, MustFit) {
  Program program = Example();
  absl::Status status =
      AddWeightData({{"up", Zeros(DType::kF32, {4, 3})}}, &program);
  EXPECT_THAT(std::string(MessageOf(status)),
              HasSubstr("the data of weight %up is f32[4,3], the program takes "
                        "f32[3,4]"));
}

TEST(WeightData, OfAFileIsCheckedWhereItIsRead) {
  std::string stem = (std::filesystem::path(::testing::TempDir()) /
                      fmt::format("weight_data_{}", ::getpid()))
                         .string();
  std::string path = stem + ".asyra", file = stem + ".safetensors";
  Program program = Example();
  ASYRA_CHECK_OK(ReadWeightsBeside(path, &program));  // there are none
  EXPECT_THAT(std::string(MessageOf(NoWeightData({"up", "down"}, path))),
              HasSubstr(file + ": there is no such file with the weights up, "
                               "down; --random-weights"));
  WeightStore weights;
  weights.Set("up", Zeros(DType::kF32, {3, 4}));
  weights.Set("upp", Zeros(DType::kF32, {1}));
  ASYRA_CHECK_OK(WriteWeights(weights, file));
  ASYRA_CHECK_OK(ReadWeightsBeside(path, &program));
  EXPECT_THAT(WeightsWithoutData(program), ElementsAre("down"));
  EXPECT_THAT(std::string(MessageOf(NoWeightData({"down"}, path))),
              HasSubstr(file + ": it has no data for the weight down;"));
  for (const Tensor& wrong :
       {Zeros(DType::kF32, {4, 4}), Zeros(DType::kF16, {3, 4})}) {
    weights.Set("up", wrong);
    ASYRA_CHECK_OK(WriteWeights(weights, file));
    EXPECT_THAT(std::string(MessageOf(ReadWeightsBeside(path, &program))),
                HasSubstr(file + ": the data of weight %up is "));
  }
  std::filesystem::remove(file);
}

TEST(WeightData, WhatWasTakenFromInputsIsSaid) {
  EXPECT_EQ(WeightsFromInputsLine("m.onnx", {"a", "b"}),
            "weights from inputs: a, b (2)\n");
  EXPECT_EQ(WeightsFromInputsLine("m.onnx", {"a", "b", "c", "d", "e"}),
            "weights from inputs: a, b, c, d, ... (5)\n");
  EXPECT_THAT(WeightsFromInputsLine("m.onnx", {}), IsEmpty());
  EXPECT_THAT(WeightsFromInputsLine("llama3-8b", {"a"}), IsEmpty());
}

}  // namespace
}  // namespace asyra
