#include "tools/run/check_outputs.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

Program Example() {
  return ASYRA_VALUE(ParseProgram(R"(asyra 1 global
program @f(%x: f32[2], %h: f16[2], %i: i64[2]) -> (f32[2], f16[2], i64[2]) {
  return %x as "y", %h, %i as "7"
}
)"));
}

std::vector<Tensor> Outputs() {
  return {Tensor::FromDoubles(DType::kF32, {2}, {1, 2}),
          Tensor::FromDoubles(DType::kF16, {2}, {3, 4}),
          Tensor::FromInts(DType::kI64, {2}, {5, 6})};
}

TEST(CheckOutputs, ThePassingVerdictHasItsTolerances) {
  std::vector<Tensor> outputs = Outputs();
  NamedTensors recorded = {
      {"y", outputs[0]}, {"h", outputs[1]}, {"7", outputs[2]}};
  CheckedOutputs checked =
      ASYRA_VALUE(CheckOutputs(Example(), outputs, recorded, 1e-3, {}));
  EXPECT_TRUE(checked.passed());
  EXPECT_EQ(VerdictText(checked),
            "check passed: 3 outputs within rtol 0.001, atol 0.002 or rtol "
            "0.001, atol 1e-05; integers equal\n");
  EXPECT_EQ(checked.outputs[1].tolerance.absolute, 2e-3);
}

TEST(CheckOutputs, TheFailingVerdictCounts) {
  std::vector<Tensor> outputs = Outputs();
  NamedTensors recorded = {{"y", outputs[0]},
                           {"h", outputs[1]},
                           {"7", Tensor::FromInts(DType::kI64, {2}, {5, 7})}};
  CheckedOutputs checked =
      ASYRA_VALUE(CheckOutputs(Example(), outputs, recorded, 1e-3, 0));
  EXPECT_FALSE(checked.passed());
  EXPECT_EQ(VerdictText(checked),
            "check failed: 1 element of 1 of 3 outputs is beyond equality\n");
  EXPECT_EQ(checked.outputs[2].first_difference,
            "1 of 2 elements differs, first %7[1]: it is 6, recorded is 7");
  recorded[0].second = Tensor::FromDoubles(DType::kF32, {2}, {2, 3});
  checked = ASYRA_VALUE(CheckOutputs(Example(), outputs, recorded, 1e-3, 0));
  EXPECT_EQ(VerdictText(checked),
            "check failed: 3 elements of 2 of 3 outputs are beyond rtol 0.001, "
            "atol 0; integers equal\n");
}

TEST(CheckOutputs, RecordingsAreMatchedByNameThenByOrder) {
  std::vector<Tensor> outputs = Outputs();
  auto passes = [&](const NamedTensors& recorded) {
    return ASYRA_VALUE(CheckOutputs(Example(), outputs, recorded, {}, {}))
        .passed();
  };
  EXPECT_TRUE(
      passes({{"7", outputs[2]}, {"y", outputs[0]}, {"h", outputs[1]}}));
  EXPECT_TRUE(
      passes({{"a", outputs[0]}, {"b", outputs[1]}, {"c", outputs[2]}}));
  auto error = [&](const NamedTensors& recorded) {
    auto checked = CheckOutputs(Example(), outputs, recorded, {}, {});
    return std::string(MessageOf(checked.status()));
  };
  EXPECT_THAT(error({{"y", outputs[0]}}),
              HasSubstr("1 output is recorded, the program has 3"));
  EXPECT_THAT(error({{"y", outputs[0]}, {"b", outputs[1]}, {"7", outputs[2]}}),
              HasSubstr("output %h is not recorded, others are by name"));
}

}  // namespace
}  // namespace asyra
