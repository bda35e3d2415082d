// Results of ops on values small enough to check by hand.
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/random.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

Tensor Literal(std::string_view text) {
  return std::get<Tensor>(ASYRA_VALUE(ParseAttr(AttrKind::kTensor, text, {})));
}

struct Example {
  std::string_view call;  // with attributes only: "slice {dim=0, ...}"
  std::vector<std::string_view> operands;
  std::string_view result;  // or the error
};

std::string Run(const Example& example) {
  std::vector<Tensor> operands;
  std::string types;
  for (std::string_view text : example.operands) {
    operands.push_back(Literal(text));
    if (!types.empty()) types += ", ";
    types += std::string(text.substr(0, text.find('(')));
  }
  size_t attrs = std::min(example.call.find(' '), example.call.size());
  std::string call = std::string(example.call.substr(0, attrs)) + "(" + types +
                     ")" + std::string(example.call.substr(attrs));
  ParsedCall parsed = ASYRA_VALUE(ParseCall(call, {}));
  absl::StatusOr<std::vector<Tensor>> results =
      Evaluate(*parsed.def, parsed.attrs, operands);
  if (!results.ok()) return std::string(MessageOf(results.status()));
  return ToString((*results)[0]);
}

void ExpectAll(std::initializer_list<Example> examples) {
  for (const Example& example : examples) {
    EXPECT_EQ(Run(example), example.result) << example.call;
  }
}

TEST(OpValues, IntegerArithmeticIsDefinedEverywhere) {
  constexpr std::string_view kLowest = "i64[1](-9223372036854775808)";
  ExpectAll({
      {"add", {"i64[1](9223372036854775807)", "i64[1](1)"}, kLowest},
      {"neg", {kLowest}, kLowest},
      {"div",
       {"i64[4](7, -7, 5, -9223372036854775808)", "i64[4](2, 2, 0, -1)"},
       "i64[4](3, -3, 0, 0)"},
      {"pow",
       {"i64[6](3, -2, 1, -1, 2, 0)", "i64[6](4, 3, -5, -5, -1, 0)"},
       "i64[6](81, -8, 1, -1, 0, 1)"},
      {"mul",
       {"i64[1](9007199254740993)", "i64[1](3)"},
       "i64[1](27021597764222979)"},
  });
}

TEST(OpValues, ElementwiseOps) {
  ExpectAll({
      {"sub",
       {"f32[2,1](10, 20)", "f32[3](1, 2, 3)"},
       "f32[2,3](9.0, 8.0, 7.0, 19.0, 18.0, 17.0)"},
      {"less", {"f32[3](1, 2, nan)", "f32[1](2)"}, "bool[3](1, 0, 0)"},
      {"is_nan", {"f32[3](1, nan, inf)"}, "bool[3](0, 1, 0)"},
      {"not", {"bool[2](0, 1)"}, "bool[2](1, 0)"},
      {"relu", {"f32[3](-1, 0, 2)"}, "f32[3](0.0, 0.0, 2.0)"},
      {"cast {to=i32}",
       {"f32[4](-1.9, 1.9, nan, 3e9)"},
       "i32[4](-1, 1, 0, 2147483647)"},
      {"cast {to=bool}", {"i64[3](0, -5, 256)"}, "bool[3](0, 1, 1)"},
      {"select",
       {"bool[2](1, 0)", "i64[2](1, 2)", "i64[1](9)"},
       "i64[2](1, 9)"},
      {"swiglu", {"f64[2](0, -inf)", "f64[2](3, 1)"}, "f64[2](0.0, nan)"},
  });
}

TEST(OpValues, ShapeOps) {
  ExpectAll({
      {"iota {shape=[2, 3], dim=0, dtype=i64}",
       {},
       "i64[2,3](0, 0, 0, 1, 1, 1)"},
      {"transpose {perm=[1, 0]}",
       {"i64[2,3](1, 2, 3, 4, 5, 6)"},
       "i64[3,2](1, 4, 2, 5, 3, 6)"},
      {"broadcast {shape=[2, 3]}",
       {"i64[2,1](1, 2)"},
       "i64[2,3](1, 1, 1, 2, 2, 2)"},
      {"reshape {shape=[3, 1]}", {"i64[3](1, 2, 3)"}, "i64[3,1](1, 2, 3)"},
      {"reshape {shape=[]}", {"i64[1,1](7)"}, "i64[](7)"},
      {"concat {dim=1}",
       {"i64[2,1](1, 2)", "i64[2,2](3, 4, 5, 6)"},
       "i64[2,3](1, 3, 4, 2, 5, 6)"},
  });
}

TEST(OpValues, SlicesAscendAndDescend) {
  constexpr std::string_view kCount = "i64[6](0, 1, 2, 3, 4, 5)";
  ExpectAll({
      {"slice {dim=0, start=1, stop=6, step=2}", {kCount}, "i64[3](1, 3, 5)"},
      {"slice {dim=0, start=1, stop=5, step=2}", {kCount}, "i64[2](1, 3)"},
      {"slice {dim=0, start=5, stop=-1, step=-2}", {kCount}, "i64[3](5, 3, 1)"},
      {"slice {dim=0, start=4, stop=0, step=-4}", {kCount}, "i64[1](4)"},
      {"slice {dim=0, start=3, stop=3}", {kCount}, "i64[0]()"},
      {"slice {dim=0, start=1, stop=6, step=9223372036854775807}",
       {kCount},
       "i64[1](1)"},
      {"slice {dim=0, start=5, stop=-1, step=-9223372036854775808}",
       {kCount},
       "i64[1](5)"},
      {"slice {dim=0, start=1, stop=7}",
       {kCount},
       "slice: [1, 7) by 1 is not inside dim 0 of size 6"},
      {"slice {dim=0, start=6, stop=0, step=-1}",
       {kCount},
       "slice: [6, 0) by -1 is not inside dim 0 of size 6"},
      {"slice {dim=0, start=0, stop=6, step=0}", {kCount}, "slice: step is 0"},
  });
}

TEST(OpValues, GathersFollowIndices) {
  constexpr std::string_view kMatrix = "i64[3,2](0, 1, 10, 11, 20, 21)";
  ExpectAll({
      {"gather {dim=0}", {kMatrix, "i64[2](2, -3)"}, "i64[2,2](20, 21, 0, 1)"},
      {"gather {dim=1}", {kMatrix, "i64[](1)"}, "i64[3](1, 11, 21)"},
      {"gather {dim=0}", {kMatrix, "i64[1](3)"}, "index 3 is not in [-3, 3)"},
      {"gather_nd", {kMatrix, "i64[2,2](2, 1, 0, -1)"}, "i64[2](21, 1)"},
      {"gather_nd", {kMatrix, "i64[2,1](1, 1)"}, "i64[2,2](10, 11, 10, 11)"},
      {"gather_nd {batch_dims=1}",
       {kMatrix, "i64[3,1](1, 0, 1)"},
       "i64[3](1, 10, 21)"},
      {"gather_nd", {kMatrix, "i64[1,2](0, 2)"}, "index 2 is not in [-2, 2)"},
      {"embedding",
       {"f32[2,2](1, 2, 3, 4)", "i64[3](1, 0, 1)"},
       "f32[3,2](3.0, 4.0, 1.0, 2.0, 3.0, 4.0)"},
      {"embedding",
       {"f32[2,2](1, 2, 3, 4)", "i64[1](2)"},
       "index 2 is not in [-2, 2)"},
      {"embedding",
       {"f32[2,2](1, 2, 3, 4)", "i64[2](-1, -2)"},
       "f32[2,2](3.0, 4.0, 1.0, 2.0)"},
      {"embedding",
       {"f32[2,2](1, 2, 3, 4)", "i64[1](-3)"},
       "index -3 is not in [-2, 2)"},
      // The last row is padding.
      {"embedding {rows=2}",
       {"f32[3,1](1, 2, 0)", "i64[2](-1, -2)"},
       "f32[2,1](2.0, 1.0)"},
      {"embedding {rows=2}",
       {"f32[3,1](1, 2, 0)", "i64[1](2)"},
       "index 2 is not in [-2, 2)"},
      {"embedding {rows=4}",
       {"f32[3,1](1, 2, 0)", "i64[1](2)"},
       "embedding: rows is 4, the table has 3"},
      {"segment_sum {dim=0, size=3, rows=2}",
       {"f32[3,1](1, 2, 4)", "i64[3](-1, -2, 1)"},
       "f32[3,1](2.0, 5.0, 0.0)"},
      {"segment_sum {dim=0, size=3, rows=2}",
       {"f32[1,1](1)", "i64[1](2)"},
       "index 2 is not in [-2, 2)"},
  });
}

TEST(OpValues, FunctionsAndActivations) {
  constexpr std::string_view kX = "f64[3](-2, 0, 2)";
  ExpectAll({
      {"abs",
       {"i64[2](-9223372036854775808, -3)"},
       "i64[2](-9223372036854775808, 3)"},
      {"sign", {"f32[4](-2.5, 0, 3, nan)"}, "f32[4](-1.0, 0.0, 1.0, nan)"},
      {"round", {"f32[4](0.5, 1.5, -2.5, 2.6)"}, "f32[4](0.0, 2.0, -2.0, 3.0)"},
      {"floor", {"f32[2](-1.5, 1.5)"}, "f32[2](-2.0, 1.0)"},
      {"ceil", {"f32[2](-1.5, 1.5)"}, "f32[2](-1.0, 2.0)"},
      {"is_inf", {"f32[3](inf, -inf, nan)"}, "bool[3](1, 1, 0)"},
      {"mod",
       {"i64[6](7, -7, 7, -7, 5, 6)", "i64[6](3, 3, -3, -3, 0, -1)"},
       "i64[6](1, 2, -2, -1, 0, 0)"},
      {"mod {truncated=true}",
       {"i64[4](7, -7, 7, -7)", "i64[4](3, 3, -3, -3)"},
       "i64[4](1, -1, 1, -1)"},
      {"mod", {"f32[2](-5.5, 5.5)", "f32[1](2)"}, "f32[2](0.5, 1.5)"},
      {"leaky_relu {slope=0.5}", {kX}, "f64[3](-1.0, 0.0, 2.0)"},
      {"hard_swish", {"f64[4](-4, 0, 3, 4)"}, "f64[4](-0.0, 0.0, 3.0, 4.0)"},
      {"softcap {cap=2.0}", {"f64[3](-inf, 0, inf)"}, "f64[3](-2.0, 0.0, 2.0)"},
      {"softplus", {"f32[2](-inf, 1000)"}, "f32[2](0.0, 1000.0)"},
      {"reglu", {kX, "f64[1](3)"}, "f64[3](0.0, 0.0, 6.0)"},
  });
}

TEST(OpValues, RandomBitsAreThoseOfPhilox) {
  // Known answers of the paper's authors' library (Random123, kat_vectors).
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c,
                                     0x9b00dbd8}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420,
                                     0x24126ea1}));
  ExpectAll({{"random_uniform {shape=[1], dtype=f16}",
              {"i64[2](0, 0)"},
              "f16[1](0.39892578125)"}});  // 0x6627e8d5 >> 21, over 2^11
}

TEST(OpValues, RandomNumbersHaveTheirDistribution) {
  constexpr int64_t kCount = 1 << 16;
  auto moments = [](std::string_view op, int64_t stream) {
    const OpDef& def = *FindOp(op);
    AttrMap attrs = {{"shape", Ints{kCount}}};
    ASYRA_CHECK_OK(CompleteAttrs(def, &attrs));
    Tensor key = Tensor::FromInts(DType::kI64, {2}, {7, stream});
    std::vector<double> x =
        ASYRA_VALUE(Evaluate(def, attrs, {key}))[0].ToDoubles();
    double mean = 0, square = 0;
    for (double value : x) mean += value / kCount;
    for (double value : x) square += (value - mean) * (value - mean) / kCount;
    return std::pair(mean, square);
  };
  auto [uniform_mean, uniform_variance] = moments("random_uniform", 0);
  EXPECT_NEAR(uniform_mean, 0.5, 0.005);
  EXPECT_NEAR(uniform_variance, 1.0 / 12, 0.002);
  auto [normal_mean, normal_variance] = moments("random_normal", 0);
  EXPECT_NEAR(normal_mean, 0, 0.02);
  EXPECT_NEAR(normal_variance, 1, 0.03);
  EXPECT_NE(moments("random_normal", 1).first, normal_mean);
}

TEST(OpValues, LossesOfRows) {
  ExpectAll({
      {"cross_entropy",
       {"f64[3,2](0, 0, 0, -inf, 7, 8)", "i64[3](1, 0, -100)"},
       "f64[3](0.6931471805599453, 0.0, 0.0)"},
      {"cross_entropy {label_smoothing=0.5}",
       {"f64[1,2](0, 0)", "i64[1](0)"},
       "f64[1](0.6931471805599453)"},
      {"cross_entropy",
       {"f64[1,2](0, 0)", "i64[1](2)"},
       "label 2 is not in [0, 2)"},
      {"cross_entropy_parts {parts=2, classes=3}",
       {"f64[2,4](1, 1, 5, 9, -inf, -inf, 7, 8)", "i64[2](2, -100)"},
       "f64[2,2](1.6931471805599454, 5.0, -inf, 7.0)"},
      {"cross_entropy_parts {classes=3}",
       {"f64[1,4](0, 0, 0, 0)", "i64[1](3)"},
       "label 3 is not in [0, 3)"},
      {"log_softmax",
       {"f64[1,2](1000, 1000)"},
       "f64[1,2](-0.6931471805599453, -0.6931471805599453)"},
      {"log_sum_exp {dims=[0]}", {"f64[2](-inf, -inf)"}, "f64[1](-inf)"},
      {"reduce_prod {dims=[0]}", {"i64[3](2, 3, -4)"}, "i64[1](-24)"},
  });
}

TEST(OpValues, OptimizersTakeOneStep) {
  ParsedCall sgd = ASYRA_VALUE(ParseCall(
      "sgd(f32[1], f32[1], f32[], f32[1]) {momentum=0.5, weight_decay=0.25}",
      {}));
  std::vector<Tensor> results =
      ASYRA_VALUE(Evaluate(*sgd.def, sgd.attrs,
                           {Literal("f32[1](4)"), Literal("f32[1](2)"),
                            Literal("f32[](0.5)"), Literal("f32[1](6)")}));
  // velocity = 0.5 * 6 + 2 + 0.25 * 4
  EXPECT_EQ(ToString(results[1]), "f32[1](6.0)");
  EXPECT_EQ(ToString(results[0]), "f32[1](1.0)");
  ParsedCall adamw = ASYRA_VALUE(
      ParseCall("adamw(f64[1], f64[1], f64[1], f64[1], f64[], i64[]) "
                "{beta1=0.5, beta2=0.5, eps=0, weight_decay=0.5}",
                {}));
  results = ASYRA_VALUE(Evaluate(
      *adamw.def, adamw.attrs,
      {Literal("f64[1](8)"), Literal("f64[1](-3)"), Literal("f64[1](0)"),
       Literal("f64[1](0)"), Literal("f64[](0.25)"), Literal("i64[](1)")}));
  // The first step is rate * (sign of the gradient + decay * param).
  EXPECT_EQ(ToString(results[0]), "f64[1](7.25)");
  EXPECT_EQ(ToString(results[1]), "f64[1](-1.5)");
  EXPECT_EQ(ToString(results[2]), "f64[1](4.5)");
}

TEST(OpValues, ScattersPutByIndex) {
  constexpr std::string_view kX = "i64[2,3](0, 1, 2, 10, 11, 12)";
  ExpectAll({
      {"scatter_elements {dim=1}",
       {kX, "i64[2,2](2, 2, 0, -1)", "i64[2,2](7, 8, 5, 6)"},
       "i64[2,3](0, 1, 8, 5, 11, 6)"},
      {"scatter_elements {dim=0, reduction=\"add\"}",
       {kX, "i64[2,1](1, 1)", "i64[2,1](100, 200)"},
       "i64[2,3](0, 1, 2, 310, 11, 12)"},
      {"scatter_elements {dim=0}",
       {kX, "i64[1,1](2)", "i64[1,1](0)"},
       "index 2 is not in [-2, 2)"},
      {"scatter_nd {reduction=\"mul\"}",
       {kX, "i64[2,2](0, 2, 0, -1)", "i64[2](3, 5)"},
       "i64[2,3](0, 1, 30, 10, 11, 12)"},
      {"scatter_nd {batch_dims=1}",
       {kX, "i64[2,1,1](1, 2)", "i64[2,1](7, 8)"},
       "i64[2,3](0, 7, 2, 10, 11, 8)"},
      {"segment_sum {dim=0, size=3}",
       {kX, "i64[2](-1, 2)"},
       "i64[3,3](0, 0, 0, 0, 0, 0, 10, 12, 14)"},
      {"segment_sum {dim=0, size=2}",
       {"i64[2,2](1, 2, 3, 4)", "i64[2,2](0, 1, 1, 1)"},
       "i64[2](1, 9)"},
      {"gather_elements {dim=1}", {kX, "i64[1,2](2, -3)"}, "i64[1,2](2, 0)"},
      {"one_hot {depth=2, dim=0, dtype=i64}",
       {"i64[4](0, 1, -1, 2)"},
       "i64[2,4](1, 0, 0, 0, 0, 1, 1, 0)"},
  });
}

TEST(OpValues, TopKBreaksTiesByIndex) {
  constexpr std::string_view kX = "f32[5](2, nan, 3, 3, -inf)";
  ExpectAll({
      {"top_k {k=3}", {kX}, "f32[3](nan, 3.0, 3.0)"},
      {"top_k {k=2, largest=false}", {kX}, "f32[2](-inf, 2.0)"},
      {"top_k {k=0}", {kX}, "f32[0]()"},
      {"arg_max {dim=0}", {"f32[3](1, 4, 4)"}, "i64[1](1)"},
      {"arg_max {dim=0, last=true, keep=false}",
       {"f32[3](1, 4, 4)"},
       "i64[](2)"},
      {"arg_min {dim=1, keep=false}", {"i64[2,2](1, 1, 5, 4)"}, "i64[2](0, 1)"},
  });
}

TEST(OpValues, ConvolutionsSlideOverSpace) {
  constexpr std::string_view kLine = "f32[1,1,4](1, 2, 3, 4)";
  constexpr std::string_view kPair = "f32[1,1,2](1, 10)";
  ExpectAll({
      {"conv", {kLine, kPair}, "f32[1,1,3](21.0, 32.0, 43.0)"},
      {"conv {strides=[2], pads=[1, 1]}",
       {kLine, kPair},
       "f32[1,1,3](10.0, 32.0, 4.0)"},
      {"conv {dilations=[2], pads=[-1, 0]}",
       {kLine, kPair},
       "f32[1,1,1](42.0)"},
      {"conv {input_dilations=[2]}",
       {kLine, kPair},
       "f32[1,1,6](1.0, 20.0, 2.0, 30.0, 3.0, 40.0)"},
      {"conv",
       {"f32[1,2,1](3, 5)", "f32[2,2,1](1, 10, 100, 1000)"},
       "f32[1,2,1](53.0, 5300.0)"},
      {"conv",
       {"f32[1,2,1](3, 5)", "f32[4,1,1](1, 2, 3, 4)"},
       "f32[1,4,1](3.0, 6.0, 15.0, 20.0)"},
  });
}

TEST(OpValues, PadsAtBothEnds) {
  constexpr std::string_view kX = "i64[1,3](1, 2, 3)";
  ExpectAll({
      {"pad {before=[1, 0], after=[0, 1], value=9.0}",
       {kX},
       "i64[2,4](9, 9, 9, 9, 1, 2, 3, 9)"},
      {"pad {before=[0, 2], after=[0, 1], mode=\"reflect\"}",
       {kX},
       "i64[1,6](3, 2, 1, 2, 3, 2)"},
      {"pad {before=[2, 0], after=[0, 1], mode=\"edge\"}",
       {kX},
       "i64[3,4](1, 2, 3, 3, 1, 2, 3, 3, 1, 2, 3, 3)"},
      {"pad {before=[0, 1], after=[0, 3], mode=\"wrap\"}",
       {kX},
       "i64[1,7](3, 1, 2, 3, 1, 2, 3)"},
  });
}

TEST(OpValues, Reductions) {
  constexpr std::string_view kMatrix = "f32[2,3](1, 2, 6, -4, 0, 1)";
  ExpectAll({
      {"reduce_sum {dims=[1]}", {kMatrix}, "f32[2,1](9.0, -3.0)"},
      {"reduce_sum {dims=[0, 1], keep=false}", {kMatrix}, "f32[](6.0)"},
      {"reduce_sum {dims=[]}", {"i64[2](1, 2)"}, "i64[2](1, 2)"},
      {"reduce_mean {dims=[-1], keep=false}", {kMatrix}, "f32[2](3.0, -1.0)"},
      {"reduce_max {dims=[0]}", {kMatrix}, "f32[1,3](1.0, 2.0, 6.0)"},
      {"reduce_min {dims=[1], keep=false}",
       {"i64[2,2](5, -3, -9, 0)"},
       "i64[2](-3, -9)"},
      {"reduce_sum {dims=[0]}", {"f32[0,2]()"}, "f32[1,2](0.0, 0.0)"},
      {"reduce_max {dims=[0]}",
       {"f32[0,2]()"},
       "reduce_max: dim 0 has no elements"},
      {"cumsum {dim=0}", {"i64[3](1, 2, 3)"}, "i64[3](1, 3, 6)"},
      {"cumsum {dim=0, exclusive=true}",
       {"i64[3](1, 2, 3)"},
       "i64[3](0, 1, 3)"},
      {"cumsum {dim=0, reverse=true}", {"i64[3](1, 2, 3)"}, "i64[3](6, 5, 3)"},
      {"cumsum {dim=0, exclusive=true, reverse=true}",
       {"i64[3](1, 2, 3)"},
       "i64[3](5, 3, 0)"},
      {"softmax", {"f32[1,2](1000, 1000)"}, "f32[1,2](0.5, 0.5)"},
      {"softmax {dim=0}", {"f64[2,1](-inf, 3)"}, "f64[2,1](0.0, 1.0)"},
  });
}

TEST(OpValues, NormalizationsOfRows) {
  ExpectAll({
      {"rms_norm {eps=0.0}",
       {"f32[1,2](3, -3)", "f32[2](2, 1)"},
       "f32[1,2](2.0, -1.0)"},
      {"rms_norm {eps=7.0}",
       {"f32[1,2](3, -3)", "f32[2](4, 8)"},
       "f32[1,2](3.0, -6.0)"},
      {"layer_norm {eps=0.0}",
       {"f32[1,2](7, 1)", "f32[2](2, 2)", "f32[2](0, 1)"},
       "f32[1,2](2.0, -1.0)"},
      {"layer_norm {eps=0.0}",
       {"f32[1,2](7, 1)", "f32[2](2, 4)"},
       "f32[1,2](2.0, -4.0)"},
  });
}

TEST(OpValues, RotaryTurnsPairs) {
  // A quarter turn takes (a, b) to (-b, a); the last element passes.
  constexpr std::string_view kX = "f32[1,1,1,5](1, 2, 3, 4, 5)";
  constexpr std::string_view kCos = "f32[1,2](0, 0)", kSin = "f32[1,2](1, 1)";
  ExpectAll({
      {"rotary", {kX, kCos, kSin}, "f32[1,1,1,5](-3.0, -4.0, 1.0, 2.0, 5.0)"},
      {"rotary {interleaved=true}",
       {kX, kCos, kSin},
       "f32[1,1,1,5](-2.0, 1.0, -4.0, 3.0, 5.0)"},
      {"rotary",
       {"f32[2,1,1,2](1, 2, 3, 4)", "f32[2,1,1](1, 0)", "f32[2,1,1](0, 1)"},
       "f32[2,1,1,2](1.0, 2.0, -4.0, 3.0)"},
  });
}

TEST(OpValues, MatmulTransposes) {
  constexpr std::string_view kA = "f32[2,3](1, 2, 3, 4, 5, 6)";
  ExpectAll({
      {"matmul {transpose_b=true}",
       {kA, kA},
       "f32[2,2](14.0, 32.0, 32.0, 77.0)"},
      {"matmul {transpose_a=true}",
       {kA, "f32[2,1](1, 10)"},
       "f32[3,1](41.0, 52.0, 63.0)"},
      {"matmul", {"f32[2,0]()", "f32[0,2]()"}, "f32[2,2](0.0, 0.0, 0.0, 0.0)"},
  });
}

}  // namespace
}  // namespace asyra
