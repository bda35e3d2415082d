#include "passes/train/parameters.h"

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/weight_store.h"
#include "tests/support/untyped.h"

namespace asyra {
namespace {

std::string Found(const Program& program) {
  std::vector<std::string> texts;
  for (const Parameter& parameter : FindParameters(program)) {
    const char* uses[] = {"matrix", "scale", "bias"};
    texts.push_back(fmt::format("{} {}", program.value_name(parameter.value),
                                uses[static_cast<int>(parameter.use)]));
  }
  return absl::StrJoin(texts, ", ");
}

std::string Found(std::string_view text) {
  return Found(ASYRA_VALUE(ParseUntyped(text)));
}

// With `data` for the weight w.
std::string FoundWith(std::string_view text, const Tensor& data) {
  Program program = ASYRA_VALUE(ParseUntyped(text));
  WeightStore weights;
  weights.Set("w", data);
  program.weights = std::make_shared<WeightStore>(weights);
  return Found(program);
}

Tensor Filled(double number, const Shape& shape) {
  Tensor tensor(DType::kF32, shape);
  tensor.SetAll(std::vector<double>(tensor.num_elements(), number));
  return tensor;
}

TEST(FindParameters, MatricesScalesAndBiasesOfALayer) {
  EXPECT_EQ(Found(R"(
    in ids i64[2,4]
    weight table f32[8,6]
    weight norm f32[6]
    weight shift f32[6]
    weight up f32[6,6]
    weight bias f32[6]
    x = embedding(table, ids)
    n = layer_norm(x, norm, shift) {eps=0.5}
    h = matmul(n, up)
    y = add(h, bias)
    out y)"),
            "table matrix, norm scale, shift bias, up matrix, bias bias");
}

TEST(FindParameters, WhatRearrangesOrCastsIsLookedThrough) {
  EXPECT_EQ(Found(R"(
    in x f32[2,6]
    weight w bf16[6,3,2]
    weight scale bf16[6]
    wide = cast(w) {to=f32}
    flat = reshape(wide) {shape=[6,6]}
    turned = transpose(flat) {perm=[1,0]}
    y = matmul(x, turned)
    s = cast(scale) {to=f32}
    z = mul(y, s)
    out z)"),
            "w matrix, scale scale");
}

TEST(FindParameters, ConvolutionHasAMatrixAndABias) {
  EXPECT_EQ(Found(R"(
    in x f32[1,3,8,8]
    weight w f32[4,3,2,2]
    weight b f32[4]
    h = conv(x, w)
    shape = reshape(b) {shape=[4,1,1]}
    y = add(h, shape)
    out y)"),
            "w matrix, b bias");
}

TEST(FindParameters, FrequenciesThatPositionsAreMultipliedWithAreNone) {
  EXPECT_EQ(Found(R"(
    in positions i64[4]
    in x f32[4,3]
    weight inv_freq f32[3]
    p = cast(positions) {to=f32}
    column = reshape(p) {shape=[4,1]}
    angles = mul(column, inv_freq)
    c = cos(angles)
    y = mul(x, c)
    out y)"),
            "");
}

TEST(FindParameters, TablesOfRotaryAreNone) {
  EXPECT_EQ(Found(R"(
    in x f32[2,4,2,6]
    weight cosine f32[4,3]
    weight sine f32[4,3]
    y = rotary(x, cosine, sine)
    out y)"),
            "");
}

TEST(FindParameters, NumbersAreNone) {
  EXPECT_EQ(Found(R"(
    in x f32[2,6]
    weight scale f32[]
    weight other f32[1]
    y = mul(x, scale)
    z = mul(y, other)
    out z)"),
            "");
}

TEST(FindParameters, IntegersAndUnreadWeightsAreNone) {
  EXPECT_EQ(Found(R"(
    in x f32[2,6]
    weight unread f32[6,6]
    weight ids i64[6]
    f = cast(ids) {to=f32}
    y = mul(x, f)
    out y)"),
            "");
}

constexpr std::string_view kAdded = R"(
    in x f32[2,4,4]
    weight w f32[4,4]
    scores = add(x, w)
    y = softmax(scores)
    z = exp(scores)
    out y
    out z)";

TEST(FindParameters, MasksAreNone) {
  // Only softmax reads what it is added to.
  EXPECT_EQ(Found(R"(
    in x f32[2,4,4]
    weight w f32[4,4]
    scores = add(x, w)
    y = softmax(scores)
    out y)"),
            "");
  // Another op reads it too, so the data says what it is.
  std::vector<double> causal, hidden;
  for (int q = 0; q < 4; ++q) {
    for (int k = 0; k < 4; ++k) {
      causal.push_back(k <= q);
      hidden.push_back(k <= q ? 0 : -1e9);
    }
  }
  auto tensor = [](const std::vector<double>& elements) {
    return Tensor::FromDoubles(DType::kF32, {4, 4}, elements);
  };
  EXPECT_EQ(FoundWith(kAdded, tensor(causal)), "");
  EXPECT_EQ(FoundWith(kAdded, tensor(hidden)), "");
  causal[5] = 0.5;
  EXPECT_EQ(FoundWith(kAdded, tensor(causal)), "w bias");
  // A matrix that begins with zeros is none.
  EXPECT_EQ(FoundWith(kAdded, Filled(0, {4, 4})), "w bias");
}

TEST(FindParameters, MatricesOfMatmulsAreTrainedUnlessTheyAreTriangles) {
  auto found = [](const std::vector<double>& elements, Shape shape) {
    return FoundWith(fmt::format(R"(
      in x f32[2,{}]
      weight w f32[{},{}]
      y = matmul(x, w)
      out y)",
                                 shape[0], shape[0], shape[1]),
                     Tensor::FromDoubles(DType::kF32, shape, elements));
  };
  // Weights may begin as any of these.
  EXPECT_EQ(found({0, 0, 0, 0}, {2, 2}), "w matrix");
  EXPECT_EQ(found({1, 1, 1, 1}, {2, 2}), "w matrix");
  EXPECT_EQ(found({1, 0, 0, 1}, {2, 2}), "w matrix");
  EXPECT_EQ(found({0, 1, 1, 0, 1, 1, 0, 0, 1}, {3, 3}), "w matrix");
  // Sums up to a position, from it, without it, over another number of them.
  EXPECT_EQ(found({1, 0, 0, 1, 1, 0, 1, 1, 1}, {3, 3}), "");
  EXPECT_EQ(found({1, 1, 1, 0, 1, 1, 0, 0, 1}, {3, 3}), "");
  EXPECT_EQ(found({0, 0, 0, .5, 0, 0, .5, .5, 0}, {3, 3}), "");
  EXPECT_EQ(found({0, 1, 1, 0, 0, 1, 0, 0, 0}, {3, 3}), "");
  EXPECT_EQ(found({1, 0, 0, 1, 1, 0}, {2, 3}), "");
  EXPECT_EQ(found({1, 1, 0, 1, 1, 1}, {2, 3}), "");
  // Not quite one.
  EXPECT_EQ(found({1, 0, 0, 1, 1, 0, 1, 2, 1}, {3, 3}), "w matrix");
  EXPECT_EQ(found({1, 0, 1, 1, 1, 0, 1, 1, 1}, {3, 3}), "w matrix");
}

TEST(FindParameters, ZerosAndOnesThatMultiplyAreAMask) {
  constexpr std::string_view kScaled = R"(
    in x f32[2,2,2]
    weight w f32[2,2]
    y = mul(x, w)
    out y)";
  auto found = [&](const std::vector<double>& elements) {
    return FoundWith(kScaled,
                     Tensor::FromDoubles(DType::kF32, {2, 2}, elements));
  };
  EXPECT_EQ(found({0, 1, 1, 0}), "");
  EXPECT_EQ(found({1, 1, 1, 1}), "w scale");
  EXPECT_EQ(found({0, 0, 0, 0}), "w scale");
}

TEST(FindUntrained, GivesTheReason) {
  Program program = ASYRA_VALUE(ParseUntyped(R"(
    in x f32[2,4]
    weight w f32[4,4]
    weight one f32[1]
    weight unread f32[3]
    h = matmul(x, w)
    y = mul(h, one)
    z = neg(unread)
    out y
    out z)"));
  std::vector<std::string> lines;
  for (const UntrainedWeight& weight : FindUntrained(program)) {
    lines.push_back(
        fmt::format("{}: {}", program.value_name(weight.value), weight.reason));
  }
  EXPECT_THAT(lines, testing::ElementsAre(
                         "one: single numbers",
                         "unread: no matmul, table, norm, sum or product of "
                         "activations has them"));
}

TEST(FindParameters, ScalesOfOnesAreNoMasks) {
  EXPECT_EQ(FoundWith(R"(
    in x f32[2,3,4]
    weight w f32[4]
    y = mul(x, w)
    out y)",
                      Filled(1, {4})),
            "w scale");
  EXPECT_EQ(FoundWith(R"(
    in x f32[2,3,4]
    weight w f32[1,1,4]
    y = mul(x, w)
    out y)",
                      Filled(1, {1, 1, 4})),
            "w scale");
  // As a layer scale of images has it.
  EXPECT_EQ(FoundWith(R"(
    in x f32[2,4,3,3]
    weight w f32[4,1,1]
    y = mul(x, w)
    out y)",
                      Filled(1, {4, 1, 1})),
            "w scale");
}

TEST(WithoutFrozen, LeavesOutWholeNames) {
  Program program = ASYRA_VALUE(ParseUntyped(R"(
    in x f32[2,4]
    weight a.w f32[4,4]
    weight b.w f32[4,4]
    h = matmul(x, a.w)
    y = matmul(h, b.w)
    out y)"));
  std::vector<Parameter> all = FindParameters(program);
  EXPECT_EQ(ASYRA_VALUE(WithoutFrozen(program, all, "")).size(), 2u);
  std::vector<Parameter> left =
      ASYRA_VALUE(WithoutFrozen(program, all, "a\\..*"));
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(program.value_name(left[0].value), "b.w");
  EXPECT_EQ(MessageOf(WithoutFrozen(program, all, "a").status()),
            "freeze: none of the 2 parameters is called a");
  EXPECT_EQ(MessageOf(WithoutFrozen(program, all, ".*").status()),
            "freeze: .* matches all 2 parameters, nothing is trained");
}

}  // namespace
}  // namespace asyra
