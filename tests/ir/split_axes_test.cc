#include "ir/split_axes.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;
using Splits = std::vector<AxisSplit>;

Program Example() {
  return ASYRA_VALUE(ParseProgram(R"(asyra 1 local
mesh (dp=4, tp=2)
program @p(%x: f32[8@dp, 6@tp], %y: f32[8, 16@(tp,dp)]) -> (f32[8, 6], f32[8@dp]) {
  %z = fusion(%x) {
    %1 = relu(%0) : f32[8@dp, 6@tp]
    %2 = neg(%1) : f32[8@dp, 6@tp]
    return %2
  } : f32[8@dp, 6@tp]
  %a = all_gather(%z) {dim=0, axes=dp} : f32[8, 6@tp]
  %b = all_gather(%a) {dim=1, axes=tp} : f32[8, 6]
  %p = reduce_sum(%y) {dims=[1], keep=false} : f32[8] partial(dp,tp)
  %q = reduce_scatter(%p) {dim=0, axes=dp} : f32[8@dp] partial(tp)
  %r = all_reduce(%q) {axes=tp} : f32[8@dp]
  return %b, %r
}
)"));
}

TEST(SplitAxes, RandomValuesAreDrawnInTheSameParts) {
  Program before = ASYRA_VALUE(ParseProgram(R"(asyra 1 local
mesh (dp=4, tp=2)
program @p(%key: i64[2]) -> (f32[8@dp, 6@tp]) {
  %r = random_uniform(%key) {shape=[8, 6], cut=[1, 0], axes=(tp,dp)} : f32[8@dp, 6@tp]
  return %r
}
)"));
  Program after = ASYRA_VALUE(SplitAxes(before, Splits{{"dp", 2}}));
  ASSERT_TRUE(Verify(after).ok()) << Verify(after);
  EXPECT_THAT(ToString(after),
              HasSubstr("cut=[1, 0, 0], axes=(tp,dp.hosts,dp)} : "
                        "f32[8@(dp.hosts,dp), 6@tp]"));
}

TEST(SplitAxes, EveryDeviceHoldsTheSame) {
  Program before = Example();
  Program after = ASYRA_VALUE(SplitAxes(before, Splits{{"dp", 2}}));
  EXPECT_EQ(ToString(after.mesh), "(dp.hosts=2, dp=2, tp=2)");
  ASSERT_TRUE(Verify(after).ok()) << Verify(after);
  std::string text = ToString(after);
  EXPECT_THAT(text, HasSubstr("%y: f32[8, 16@(tp,dp.hosts,dp)]"));
  EXPECT_THAT(text, HasSubstr("axes=(dp.hosts,dp)} : f32[8@(dp.hosts,dp)] "
                              "partial(tp)"));
  for (size_t v = 0; v < before.values.size(); ++v) {
    for (int64_t device = 0; device < 8; ++device) {
      for (const Dim& dim : before.values[v].type.dims) {
        const Dim& split =
            after.values[v].type.dims[&dim - &before.values[v].type.dims[0]];
        EXPECT_EQ(before.mesh.GroupIndex(device, dim.axes),
                  after.mesh.GroupIndex(device, split.axes));
      }
    }
  }
  std::vector<Tensor> inputs;
  for (const Input& input : before.inputs) {
    inputs.emplace_back(DType::kF32, before.type(input.value).shape());
    for (int64_t i = 0; i < inputs.back().num_elements(); ++i) {
      inputs.back().Set(i, static_cast<double>(i * i % 7));
    }
  }
  auto expected = ASYRA_VALUE(Interpret(before, inputs));
  auto actual = ASYRA_VALUE(Interpret(after, inputs));
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(actual[i].ToDoubles(), expected[i].ToDoubles());
  }
}

TEST(SplitAxes, NamesShowTheSplits) {
  Program before = Example();
  Program after = ASYRA_VALUE(SplitAxes(before, Splits{{"dp", 2}, {"tp", 1}}));
  EXPECT_EQ(ToString(after.mesh), "(dp.hosts=2, dp=2, tp.hosts=2, tp=1)");
  std::vector<AxisSplit> splits = SplitsOf(after.mesh);
  ASSERT_EQ(splits.size(), 2);
  EXPECT_EQ(splits[0].axis, "dp");
  EXPECT_EQ(splits[1].inner, 1);
  EXPECT_EQ(WithoutSplits(after.mesh), before.mesh);
  EXPECT_EQ(ToString(ASYRA_VALUE(SplitAxes(before, splits))), ToString(after));
  EXPECT_TRUE(SplitsOf(before.mesh).empty());
  EXPECT_EQ(WithoutSplits(before.mesh), before.mesh);
}

TEST(SplitAxes, RefusesWhatTheMeshDoesNotHave) {
  EXPECT_EQ(SplitAxes(Example(), Splits{{"sp", 2}}).status().message(),
            "(dp=4, tp=2) has no axis sp to split");
  EXPECT_EQ(SplitAxes(Example(), Splits{{"dp", 3}}).status().message(),
            "axis dp of size 4 does not divide into parts of 3");
  EXPECT_EQ(SplitAxes(Example(), Splits{{"dp", 0}}).status().message(),
            "axis dp of size 4 does not divide into parts of 0");
  Program taken = ASYRA_VALUE(SplitAxes(Example(), Splits{{"dp", 2}}));
  EXPECT_EQ(SplitAxes(taken, Splits{{"dp", 1}}).status().message(),
            "mesh: axis dp.hosts is given twice, of size 2 and of 2");
}

}  // namespace
}  // namespace asyra
