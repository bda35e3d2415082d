#include "tools/train/gradient_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/weights/weight_store.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Gradients = std::map<std::string, Tensor>;

Tensor F32(const Shape& shape, const std::vector<double>& elements) {
  return Tensor::FromDoubles(DType::kF32, shape, elements);
}

absl::StatusOr<GradientCheck> Check(const Gradients& computed,
                                    const Gradients& recorded) {
  WeightStore store;
  for (const auto& [name, tensor] : recorded) store.Set(name, tensor);
  std::vector<WholeGradient> whole;
  for (const auto& [name, tensor] : computed)
    whole.push_back({name, {}, tensor});
  return CheckGradients(whole, store, 1e-3);
}

GradientCheck Checked(const Gradients& computed, const Gradients& recorded) {
  return ASYRA_VALUE(Check(computed, recorded));
}

const Tensor kMatrix = F32({2, 3}, {1, 2, 3, 4, 5, 8});
const Tensor kTurned = F32({3, 2}, {1, 4, 2, 5, 3, 8});

TEST(GradientCheck, NamesFitBehindADot) {
  GradientCheck check =
      Checked({{"m.head", kMatrix}, {"bias", F32({2}, {1, 2})}},
              {{"head", kMatrix}, {"x.bias", F32({2}, {1, 2})}});
  EXPECT_EQ(check.by_name, 2);
  EXPECT_EQ(check.by_value, 0);
  EXPECT_EQ(check.worst, 0);
  EXPECT_THAT(check.unknown, IsEmpty());
  EXPECT_THAT(check.missing, IsEmpty());
  // "ahead" only ends in it.
  check = Checked({{"ahead", F32({2}, {1, 2})}}, {{"head", F32({2}, {5, 6})}});
  EXPECT_EQ(check.by_name, 0);
  EXPECT_THAT(check.unknown, ElementsAre("ahead"));
  EXPECT_THAT(check.missing, ElementsAre("head"));
}

TEST(GradientCheck, TheWorstIsOfTheLargestElement) {
  GradientCheck check =
      Checked({{"a", F32({2}, {1, 10.5})}, {"b", F32({2}, {1, 4})}},
              {{"a", F32({2}, {1, 10})}, {"b", F32({2}, {2, 4})}});
  EXPECT_DOUBLE_EQ(check.worst, 0.25);
  EXPECT_EQ(check.worst_name, "b");
  // What should be 0 is compared with a thousandth of the largest of all.
  check = Checked({{"a", F32({2}, {1, 100})}, {"b", F32({2}, {0.001, 0})}},
                  {{"a", F32({2}, {1, 100})}, {"b", F32({2}, {0, 0})}});
  EXPECT_NEAR(check.worst, 0.01, 1e-8);
}

TEST(GradientCheck, AGradientThatIsNoNumberIsTheWorst) {
  GradientCheck check =
      Checked({{"a", F32({2}, {NAN, 10})}, {"b", F32({2}, {1, 4})}},
              {{"a", F32({2}, {1, 10})}, {"b", F32({2}, {2, 4})}});
  EXPECT_FALSE(check.worst <= 1);
  EXPECT_EQ(check.worst_name, "a");
}

TEST(GradientCheck, OtherNamesAreFoundByTheirNumbers) {
  GradientCheck check =
      Checked({{"val_1", kMatrix}, {"val_2", F32({2}, {1, 2.0001})}},
              {{"up", kMatrix},
               {"bias", F32({2}, {1, 2})},
               {"shift", F32({2}, {1, 3})}});
  EXPECT_EQ(check.by_value, 2);
  EXPECT_THAT(check.missing, ElementsAre("shift"));
  EXPECT_NEAR(check.worst, 5e-5, 1e-6);
}

TEST(GradientCheck, ATransposedOneIsFoundToo) {
  GradientCheck check = Checked({{"val_1", kTurned}}, {{"head", kMatrix}});
  EXPECT_EQ(check.by_value, 1);
  EXPECT_EQ(check.worst, 0);
  check = Checked({{"head", kTurned}}, {{"m.head", kMatrix}});
  EXPECT_EQ(check.by_name, 1);
  EXPECT_EQ(check.worst, 0);
}

TEST(GradientCheck, APaddingRowIsLeftOutAndNamed) {
  Tensor recorded = F32({3, 2}, {1, 2, 0, 0, 5, 6});
  GradientCheck check = Checked({{"table", F32({3, 2}, {1, 2, 9, 9, 5, 6})}},
                                {{"table", recorded}});
  EXPECT_EQ(check.worst, 0);
  EXPECT_THAT(check.padding, ElementsAre("row 1 of table"));
  // The others still count.
  check = Checked({{"table", F32({3, 2}, {1, 2, 9, 9, 5, 9})}},
                  {{"table", recorded}});
  EXPECT_DOUBLE_EQ(check.worst, 0.5);
  // Two such rows are no padding.
  check = Checked({{"table", F32({3, 2}, {9, 9, 9, 9, 5, 6})}},
                  {{"table", F32({3, 2}, {0, 0, 0, 0, 5, 6})}});
  EXPECT_THAT(check.padding, IsEmpty());
  EXPECT_DOUBLE_EQ(check.worst, 1.5);
}

TEST(GradientCheck, RowsOfZerosAtTheEndMayBeMissing) {
  GradientCheck check =
      Checked({{"positions", F32({2, 2}, {1, 2, 3, 4})}},
              {{"positions", F32({3, 2}, {1, 2, 3, 4, 0, 0})}});
  EXPECT_EQ(check.worst, 0);
  EXPECT_EQ(MessageOf(Check({{"positions", F32({2, 2}, {1, 2, 3, 4})}},
                            {{"positions", F32({3, 2}, {1, 2, 3, 4, 0, 1})}})
                          .status()),
            "the gradient of positions has shape [2,2], recorded is [3,2]");
}

TEST(GradientCheck, TiedOnesHaveTwoNames) {
  WeightStore store;
  store.Set("head", kTurned);
  GradientCheck check = ASYRA_VALUE(CheckGradients(
      {{"table", {{"head", /*transposed=*/true}}, kMatrix}}, store, 1e-3));
  EXPECT_EQ(check.by_name, 1);
  EXPECT_EQ(check.worst, 0);
}

// Of "qkv", columns [head, (q, k), size]; of "up", padded rows; of "turned",
// the columns that users know as rows.
TEST(WholeGradients, AreTensorsOfTheFile) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 global
program @main(%qkv.0: f32[1, 2] param of "qkv" [1, 4] cut [1, 2, 2, 1] 2 0 1,
    %qkv.1: f32[1, 2] param of "qkv" [1, 4] cut [1, 2, 2, 1] 2 1 1,
    %up: f32[4] param padded from [3],
    %v: f32[2, 3] param of "turned" [2, 3] transposed stored "val_1")
    -> (f32[4]) {
  return %up
}
)"));
  std::vector<WholeGradient> whole =
      WholeGradients(program, {{"qkv.0", F32({1, 2}, {1, 3})},
                               {"qkv.1", F32({1, 2}, {2, 4})},
                               {"up", F32({4}, {1, 2, 3, 0})},
                               {"v", kMatrix}});
  ASSERT_EQ(whole.size(), 3u);
  EXPECT_EQ(whole[0].name, "qkv");
  EXPECT_TRUE(SameBytes(whole[0].gradient, F32({1, 4}, {1, 2, 3, 4})));
  EXPECT_EQ(whole[1].name, "up");
  EXPECT_TRUE(SameBytes(whole[1].gradient, F32({3}, {1, 2, 3})));
  EXPECT_EQ(whole[2].name, "turned");
  EXPECT_TRUE(SameBytes(whole[2].gradient, kTurned));
}

}  // namespace
}  // namespace asyra
