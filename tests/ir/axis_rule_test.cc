#include "ir/axis_rule.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "tests/ir/op_case.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Type> Types(std::initializer_list<std::string_view> texts,
                        const Mesh& mesh = {}) {
  std::vector<Type> types;
  for (std::string_view text : texts) {
    types.push_back(ASYRA_VALUE(ParseType(text, mesh)));
  }
  return types;
}

std::vector<std::string> Describe(const AxisRule& rule) {
  std::vector<std::string> factors;
  for (const Factor& factor : rule.factors) {
    const char* kinds[] = {"parallel", "sum", "whole"};
    factors.push_back(fmt::format("{}={} {}{}", factor.name, factor.size,
                                  kinds[static_cast<int>(factor.kind)],
                                  factor.positional ? " positional" : ""));
  }
  return factors;
}

TEST(ParseAxisRule, MatmulHasASumFactor) {
  AxisRule rule = ASYRA_VALUE(ParseAxisRule("... m k, ... k n -> ... m n",
                                            Types({"f32[2,3,4]", "f32[4,5]"}),
                                            Types({"f32[2,3,5]"})));
  EXPECT_THAT(Describe(rule), ElementsAre("m=3 parallel", "k=4 sum",
                                          "n=5 parallel", "..0=2 parallel"));
}

TEST(ParseAxisRule, SizesInsideParenthesesAreLeftToDivision) {
  AxisRule rule = ASYRA_VALUE(ParseAxisRule(
      "b @s (h g) !d, b !t h !d -> b s (h g)",
      Types({"f32[2,8,12,4]", "f32[2,6,3,4]"}), Types({"f32[2,8,12]"})));
  EXPECT_THAT(
      Describe(rule),
      ElementsAre("b=2 parallel", "s=8 parallel positional", "h=3 parallel",
                  "g=4 parallel", "d=4 whole", "t=6 whole"));
  EXPECT_EQ(rule.Leading(0, 2), 2);
  EXPECT_TRUE(rule.UsedByOperand(3, 0));
  EXPECT_FALSE(rule.UsedByOperand(3, 1));
}

TEST(ParseAxisRule, LeadingPassesOverFactorsOfSizeOne) {
  AxisRule rule = ASYRA_VALUE(ParseAxisRule(
      "(h g), h -> (h g)", Types({"f32[4]", "f32[1]"}), Types({"f32[4]"})));
  EXPECT_EQ(rule.factors[rule.Leading(0, 0)].name, "g");
  EXPECT_EQ(rule.Leading(1, 0), -1);
}

TEST(ParseAxisRule, BroadcastDimensionsAreBoundToNoFactor) {
  for (auto operands :
       {Types({"f32[4,1]", "f32[2,1,6]"}), Types({"f32[2,1,6]", "f32[4,1]"})}) {
    AxisRule rule = ASYRA_VALUE(
        ParseAxisRule("..., ... -> ...", operands, Types({"f32[2,4,6]"})));
    int wide = operands[0].rank() == 3 ? 0 : 1;
    EXPECT_TRUE(rule.operands[wide][1].empty());
    EXPECT_TRUE(rule.operands[1 - wide][1].empty());
    EXPECT_EQ(rule.operands[wide][0], rule.results[0][0]);
  }
}

TEST(ParseAxisRule, ErrorsNameTheRule) {
  auto error = [](std::string_view spec,
                  std::initializer_list<std::string_view> operands,
                  std::initializer_list<std::string_view> results) {
    absl::StatusOr<AxisRule> rule =
        ParseAxisRule(spec, Types(operands), Types(results));
    EXPECT_FALSE(rule.ok()) << spec;
    return std::string(MessageOf(rule.status()));
  };
  EXPECT_THAT(error("m k -> m", {"f32[2,3]", "f32[2]"}, {"f32[2]"}),
              HasSubstr("\"m k -> m\": 1 operands and 1 results, the op has 2 "
                        "and 1"));
  EXPECT_THAT(error("m k -> m", {"f32[2]"}, {"f32[2]"}),
              HasSubstr("has 2 dimensions, the type has 1"));
  EXPECT_THAT(error("m -> m", {"f32[2]"}, {"f32[3]"}),
              HasSubstr("size 3 has factors of product 2"));
  EXPECT_THAT(error("(h g) -> (h g)", {"f32[6]"}, {"f32[6]"}),
              HasSubstr("two unknown sizes"));
  EXPECT_THAT(error("(h g), h -> (h g)", {"f32[6]", "f32[4]"}, {"f32[6]"}),
              HasSubstr("4 does not divide 6"));
  EXPECT_THAT(error("_ -> _", {"f32[2]"}, {"f32[1]"}),
              HasSubstr("size 2 has factors of product 1"));
}

class Heads : public testing::Test {
 protected:
  // x is [s, heads], k is [t, key heads].
  absl::StatusOr<FactorAxes> AxesOf(std::string_view x, std::string_view k) {
    std::vector<Type> operands = Types({x, k}, mesh_);
    std::vector<Type> global = {operands[0].Global(), operands[1].Global()};
    rule_ = ASYRA_VALUE(
        ParseAxisRule("s (h g), !t h -> s (h g)", global, {&global[0], 1}));
    return FactorAxesOf(rule_, operands, mesh_);
  }
  std::string ErrorOf(std::string_view x, std::string_view k) {
    absl::StatusOr<FactorAxes> axes = AxesOf(x, k);
    EXPECT_FALSE(axes.ok());
    return std::string(MessageOf(axes.status()));
  }
  Mesh mesh_ = ParseMesh("(a=2, b=2, c=2)");
  AxisRule rule_;
};

TEST_F(Heads, AxesAreDealtOutermostFirst) {
  FactorAxes axes = ASYRA_VALUE(AxesOf("f32[4@c,8@(a,b)]", "f32[6,2@a]"));
  EXPECT_THAT(axes,
              ElementsAre(AxisList{2}, AxisList{0}, AxisList{1}, AxisList{}));
}

TEST_F(Heads, FewKeyHeadsLeaveTheAxesToTheirGroups) {
  FactorAxes axes = ASYRA_VALUE(AxesOf("f32[4,8@(b,a)]", "f32[6,1]"));
  EXPECT_THAT(axes,
              ElementsAre(AxisList{}, AxisList{}, AxisList{1, 0}, AxisList{}));
}

TEST_F(Heads, ErrorsNameOperandsAndAxes) {
  EXPECT_THAT(ErrorOf("f32[4,6@a]", "f32[6,3]"),
              HasSubstr("operand 0 dim 1 of size 6 cannot be sharded over a"));
  EXPECT_THAT(ErrorOf("f32[4,8@(a,b)]", "f32[6,2@b]"),
              HasSubstr("operands 0 and 1 disagree along factor h: over a and "
                        "b"));
  EXPECT_THAT(ErrorOf("f32[4,8]", "f32[6@c,2]"),
              HasSubstr("operand 1 must be whole along factor t, not over c"));
}

TEST(FactorAxesOf, AnAxisShardsOneFactor) {
  Mesh mesh = ParseMesh("(a=2)");
  std::vector<Type> operands = Types({"f32[4@a]", "f32[6@a]"}, mesh);
  AxisRule rule = ASYRA_VALUE(ParseAxisRule(
      "m, n -> m n", Types({"f32[4]", "f32[6]"}), Types({"f32[4,6]"})));
  absl::StatusOr<FactorAxes> axes = FactorAxesOf(rule, operands, mesh);
  EXPECT_THAT(MessageOf(axes.status()),
              HasSubstr("axis a shards two factors, one is n"));
}

TEST_F(Heads, ApplyFactorAxesRefusesWhatATypeCannotSay) {
  ASSERT_TRUE(AxesOf("f32[4,8]", "f32[6,2]").ok());
  Type type = Types({"f32[4,8]"})[0];
  auto apply = [&](FactorAxes axes) {
    return ApplyFactorAxes(type, rule_.operands[0], rule_, axes, mesh_);
  };
  EXPECT_EQ(ToString(*apply({{}, {0}, {1, 2}, {}}), mesh_),
            "f32[4, 8@(a,b,c)]");
  EXPECT_THAT(MessageOf(apply({{}, {}, {1}, {}}).status()),
              HasSubstr("dim 1 of size 8 cannot be sharded along its inner "
                        "factor g"));
  EXPECT_THAT(MessageOf(apply({{}, {0, 1}, {}, {}}).status()),
              HasSubstr("factor h of size 2 does not divide over (a,b) = 4"));
}

class Distribution : public testing::Test {
 protected:
  std::string Result(std::string_view x, std::string_view w,
                     Linearity linearity = Linearity::kEach) {
    std::vector<Type> operands = Types({x, w}, mesh_);
    std::vector<Type> global = {operands[0].Global(), operands[1].Global()};
    Type result(DType::kF32, {global[0].size(0), global[1].size(1)});
    AxisRule rule = ASYRA_VALUE(
        ParseAxisRule("m k, k n -> m n", global, {&result, 1}, linearity));
    absl::StatusOr<std::vector<Type>> types =
        Distribute(rule, operands, {&result, 1}, mesh_);
    if (!types.ok()) return std::string(MessageOf(types.status()));
    return ToString((*types)[0], mesh_);
  }
  Mesh mesh_ = ParseMesh("(a=2, b=2, c=2)");
};

TEST_F(Distribution, FollowsFromTheOperands) {
  EXPECT_EQ(Result("f32[4@a,8]", "f32[8,6@b]"), "f32[4@a, 6@b]");
  EXPECT_EQ(Result("f32[4,8@(c,a)]", "f32[8@(c,a),6@b]"),
            "f32[4, 6@b] partial(a,c)");
}

TEST_F(Distribution, PartialOperandsFollowLinearity) {
  EXPECT_EQ(Result("f32[4,8@b] partial(c)", "f32[8@b,6]"),
            "f32[4, 6] partial(b,c)");
  EXPECT_THAT(Result("f32[4,8] partial(a)", "f32[8,6] partial(a)"),
              HasSubstr("operand 1 must not be partial over a"));
  EXPECT_THAT(Result("f32[4,8] partial(a)", "f32[8,6]", Linearity::kNone),
              HasSubstr("operand 0 must not be partial over a"));
  EXPECT_EQ(
      Result("f32[4,8] partial(a)", "f32[8,6] partial(a)", Linearity::kJoint),
      "f32[4, 6] partial(a)");
  EXPECT_THAT(Result("f32[4,8] partial(a)", "f32[8,6]", Linearity::kJoint),
              HasSubstr("some operands are partial over a and some are not"));
  EXPECT_THAT(
      Result("f32[4,8] partial(a)", "f32[8,6] partial(b)", Linearity::kJoint),
      HasSubstr("operand 1 must not be partial over b"));
  EXPECT_THAT(Result("f32[4,8] partial(a)", "f32[8,6@a]"),
              HasSubstr("axis a shards factor n of an operand beside one that "
                        "is partial over it"));
}

// A random way to write `factors` as the sizes of dimensions, 1 among them.
Shape Grouped(const std::vector<int64_t>& factors, std::mt19937_64* random) {
  Shape shape = {1};
  for (int64_t factor : factors) {
    if ((*random)() % 2 == 0) shape.push_back(1);
    shape.back() *= factor;
    if ((*random)() % 8 == 0) shape.push_back(1);
  }
  return shape;
}

// The dimensions of `type` sharded at random where sizes allow it.
void ShardAtRandom(Type* type, const Mesh& mesh, std::mt19937_64* random) {
  for (int i = 0; i < mesh.num_axes(); ++i) {
    Dim& dim = type->dims[(*random)() % type->rank()];
    dim.axes.push_back(static_cast<AxisId>(i));
    if (dim.size % mesh.size(dim.axes) != 0) dim.axes.pop_back();
  }
}

TEST(Reshape, ShardsOfTheOperandAreShardsOfTheResult) {
  SCOPED_TRACE(Seed());
  std::mt19937_64 random(Seed());
  Mesh mesh = ParseMesh("(a=2, b=3, c=2)");
  const OpDef& reshape = *FindOp("reshape");
  int accepted = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> factors = {2, 3, 2, 2, 3};
    std::shuffle(factors.begin(), factors.end(), random);
    Shape from = Grouped(factors, &random);
    if (random() % 2 == 0) std::shuffle(factors.begin(), factors.end(), random);
    Shape to = Grouped(factors, &random);
    Type type(DType::kI64, from);
    ShardAtRandom(&type, mesh, &random);
    AttrMap attrs = {{"shape", Ints(to.begin(), to.end())}};
    absl::StatusOr<std::vector<Type>> result =
        InferTypes(reshape, attrs, {&type, 1}, mesh);
    if (!result.ok()) continue;
    accepted += type.is_distributed();
    SCOPED_TRACE(ToString(type, mesh) + " -> " + ToString((*result)[0], mesh));
    Tensor whole(DType::kI64, from);
    for (int64_t i = 0; i < 72; ++i) whole.SetInt(i, i);
    for (int64_t device = 0; device < mesh.num_devices(); ++device) {
      Tensor want = Shard(whole.Reshaped(to), (*result)[0], mesh, device);
      Tensor shard = Shard(whole, type, mesh, device);
      ASSERT_EQ(want.num_elements(), shard.num_elements());
      EXPECT_TRUE(SameBytes(want, shard.Reshaped(want.shape())));
    }
  }
  EXPECT_GT(accepted, 100);
}

// More factors than 8 bits count.
TEST(AxisRules, ManyOperandsThatAreJoined) {
  Mesh mesh = ParseMesh("(a=2)");
  for (int count : {126, 127, 128, 200, 300}) {
    std::vector<Type> types(count, ASYRA_VALUE(ParseType("f32[4@a, 3]", mesh)));
    const OpDef& concat = *FindOp("concat");
    AttrMap attrs = {{"dim", int64_t{1}}};
    auto result = ASYRA_VALUE(InferTypes(concat, attrs, types, mesh));
    EXPECT_EQ(ToString(result[0], mesh),
              fmt::format("f32[4@a, {}]", 3 * count));
    AxisRule rule =
        ASYRA_VALUE(AxisRuleOf(OpCall{concat, attrs, types, result}));
    // The rows, each operand's columns, and all columns.
    ASSERT_EQ(rule.factors.size(), count + 2u);
    for (int i = 0; i < count; ++i) {
      ASSERT_THAT(rule.operands[i][0], ElementsAre(0));
      FactorId own = rule.operands[i][1][0];
      EXPECT_EQ(rule.factors[own].name, fmt::format("part{}", i));
      EXPECT_EQ(rule.factors[own].kind, FactorKind::kWhole);
    }
    FactorId all = rule.results[0][1][0];
    EXPECT_EQ(rule.factors[all].size, 3 * count);
  }
}

TEST(Reshape, SplitsHeadsOverAxes) {
  Mesh mesh = ParseMesh("(tp=4)");
  const OpDef& reshape = *FindOp("reshape");
  auto result = [&](std::string_view type, Ints shape) {
    Type operand = ASYRA_VALUE(ParseType(type, mesh));
    auto types = InferTypes(reshape, {{"shape", shape}}, {&operand, 1}, mesh);
    return types.ok() ? ToString((*types)[0], mesh)
                      : std::string(MessageOf(types.status()));
  };
  EXPECT_EQ(result("f32[2,6,32@tp]", {2, 6, 8, 4}), "f32[2, 6, 8@tp, 4]");
  EXPECT_EQ(result("f32[2,6,8@tp,4]", {12, 32}), "f32[12, 32@tp]");
  EXPECT_THAT(result("f32[2,6,8,4@tp]", {2, 6, 32}),
              HasSubstr("cannot be sharded along its inner factor"));
  EXPECT_THAT(result("f32[3,8@tp]", {8, 3}), HasSubstr("must be whole"));
}

}  // namespace
}  // namespace asyra
