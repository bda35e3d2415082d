#include "passes/train/parameters.h"

#include <cmath>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/weight_origin.h"
#include "ir/weights/weight_store.h"
#include "tests/support/untyped.h"

namespace asyra {
namespace {

std::string Found(const Program& program) {
  std::vector<std::string> texts;
  for (const Parameter& parameter : FindParameters(program).parameters) {
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

TEST(FindParameters, NumbersAreParametersAsOthersAre) {
  EXPECT_EQ(Found(R"(
    in x f32[2,6]
    weight scale f32[]
    weight other f32[1]
    y = mul(x, scale)
    e = exp(other)
    z = mul(y, e)
    out z)"),
            "scale scale, other bias");
}

// Every way leads to a float output: whatever reads a weight first.
TEST(FindParameters, WhateverReadsThemFirst) {
  EXPECT_EQ(Found(R"(
    in x f32[2,4,4]
    in seen bool[2,4,4]
    weight log f32[4]
    weight one_less f32[4]
    weight token f32[4]
    weight clip f32[4]
    weight divisor f32[4]
    weight power f32[4]
    weight score f32[4,4]
    weight row f32[2,1,4]
    one = constant() {value=f32[](1.0)}
    e = exp(log)
    a = mul(x, e)
    w = add(one_less, one)
    b = mul(a, w)
    c = select(seen, token, b)
    d = min(c, clip)
    f = div(d, divisor)
    g = pow(f, power)
    scores = add(g, score)
    p = softmax(scores)
    y = concat(p, row) {dim=1}
    out y)"),
            "log bias, one_less bias, token bias, clip bias, divisor bias, "
            "power bias, score bias, row matrix");
}

TEST(FindParameters, NothingWithASlopeLeadsFromThemToAnOutput) {
  EXPECT_EQ(Found(R"(
    in x f32[2,4]
    weight compared f32[4]
    weight rounded f32[4]
    weight trained f32[4]
    less = less(x, compared)
    whole = floor(rounded)
    y = select(less, x, whole)
    z = mul(y, trained)
    out z)"),
            "trained scale");
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
  // Without data it may be learned.
  EXPECT_EQ(Found(kAdded), "w bias");
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

TEST(FindParameters, MasksMayHaveDimensionsOfOneElement) {
  auto found = [](std::string_view shape, const Shape& sizes) {
    std::string text = fmt::format(R"(
    in x f32[2,2,2]
    weight w f32{}
    y = mul(x, w)
    out y)",
                                   shape);
    return FoundWith(text, Tensor::FromDoubles(DType::kF32, sizes,
                                               std::vector<double>{0, 1}));
  };
  Tensor mask = Tensor::FromDoubles(DType::kF32, {2, 2, 1}, {1, 0, 1, 1});
  EXPECT_EQ(FoundWith(R"(
    in x f32[2,2,4]
    weight w f32[2,2,1]
    y = mul(x, w)
    out y)",
                      mask),
            "");
  // A vector of gates is none.
  EXPECT_EQ(found("[2,1]", {2, 1}), "w scale");
}

// With the data of the weight w, and the reason where it is none.
std::string ReasonFor(std::string_view text, const Tensor& data) {
  Program program = ASYRA_VALUE(ParseUntyped(text));
  WeightStore weights;
  weights.Set("w", data);
  program.weights = std::make_shared<WeightStore>(weights);
  for (const UntrainedWeight& weight : FindParameters(program).untrained) {
    if (program.value_name(weight.value) == "w") return weight.reason;
  }
  return "";
}

Tensor Table(const Shape& shape, double (*element)(int64_t, int64_t)) {
  Tensor tensor(DType::kF32, shape);
  int64_t columns = shape.back();
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.Set(i, element(i / columns, i % columns));
  }
  return tensor;
}

TEST(FindParameters, GivesTheReason) {
  constexpr std::string_view kTable = R"(
    in x f32[2,8,4]
    in ids i64[2,8]
    weight w f32[16,4]
    rows = embedding(w, ids)
    y = mul(x, rows)
    out y)";
  auto sine = [](int64_t r, int64_t c) {
    return std::sin(static_cast<double>(r) * std::pow(0.1, c));
  };
  EXPECT_EQ(ReasonFor(kTable, Table({16, 4}, sine)), "sines of positions");
  // As a table of scales may begin.
  EXPECT_EQ(ReasonFor(kTable, Filled(1, {16, 4})), "");
  EXPECT_EQ(ReasonFor(kTable, Filled(0, {16, 4})), "");
  auto spread = [](int64_t r, int64_t c) {
    return 1e-5 * static_cast<double>((r * 7 + c * 5) % 11);
  };
  EXPECT_EQ(ReasonFor(kTable, Table({16, 4}, spread)), "");

  // As the decay of a state space model begins.
  auto ramp = [](int64_t, int64_t c) { return -static_cast<double>(c + 1); };
  EXPECT_EQ(ReasonFor(kTable, Table({16, 4}, ramp)), "");
  EXPECT_EQ(ReasonFor(R"(
    in x f32[2,8]
    weight w f32[6,8]
    y = matmul(x, w) {transpose_b=true}
    out y)",
                      Table({6, 8}, ramp)),
            "");

  constexpr std::string_view kScores = R"(
    in x f32[2,3,4,4]
    weight w f32[3,4,4]
    scores = add(x, w)
    y = softmax(scores)
    out y)";
  auto distance = [](int64_t r, int64_t c) {
    return -std::pow(0.5, r / 4) * static_cast<double>(r % 4 - c);
  };
  EXPECT_EQ(ReasonFor(kScores, Table({3, 4, 4}, distance)),
            "planes over positions");
  EXPECT_EQ(ReasonFor(kScores, Filled(0, {3, 4, 4})), "");

  constexpr std::string_view kSlopes = R"(
    in x f32[2,4,5,5]
    in positions i64[5]
    weight w f32[4]
    p = cast(positions) {to=f32}
    slopes = reshape(w) {shape=[4,1,1]}
    bias = mul(slopes, p)
    scores = add(x, bias)
    y = softmax(scores)
    out y)";
  auto slope = [](int64_t, int64_t c) { return std::pow(0.25, c + 1); };
  EXPECT_EQ(ReasonFor(kSlopes, Table({1, 4}, slope).Reshaped({4})),
            "frequencies or slopes of positions");
  // Learned ones are no series.
  EXPECT_EQ(ReasonFor(kSlopes,
                      Tensor::FromDoubles(DType::kF32, {4}, {.5, .3, .1, .2})),
            "");
}

// A mask that constants change before it is used.
TEST(FindParameters, MasksAreSeenThroughConstants) {
  std::vector<double> seen;
  for (int q = 0; q < 4; ++q) {
    for (int k = 0; k < 4; ++k) seen.push_back((q + k) % 3 != 0);
  }
  Tensor mask = Tensor::FromDoubles(DType::kF32, {4, 4}, seen);
  EXPECT_EQ(ReasonFor(R"(
    in x f32[2,4,4]
    weight w f32[4,4]
    one = constant() {value=f32[](1.0)}
    low = constant() {value=f32[](-1e9)}
    hidden = sub(one, w)
    added = mul(hidden, low)
    scores = add(x, added)
    y = softmax(scores)
    out y)",
                      mask),
            "masks of 0 and numbers below -1000");
  EXPECT_EQ(ReasonFor(R"(
    in x f32[2,4]
    weight w f32[4,4]
    quarter = constant() {value=f32[](0.25)}
    half = mul(w, quarter)
    y = matmul(x, half)
    out y)",
                      mask),
            "");
}

TEST(FindParameters, OneNumberUnderAnExportersNameIsNone) {
  Program program = ASYRA_VALUE(ParseUntyped(R"(
    in x f32[2,4,4]
    weight where_1 f32[4,4]
    weight expand f32[4,4]
    weight bias f32[4,4]
    a = add(x, where_1)
    b = add(a, expand)
    y = add(b, bias)
    out y)"));
  WeightStore weights;
  weights.Set("where_1", Filled(0, {4, 4}));
  // What was stored is not one number.
  weights.Set("expand", Tensor::FromDoubles(
                            DType::kF32, {4, 4},
                            {0, 1, 2, 3, 9, 5, 6, 7, 8, 4, 1, 1, 2, 3, 5, 8}));
  weights.Set("bias", Filled(0, {4, 4}));
  program.weights = std::make_shared<WeightStore>(weights);
  EXPECT_EQ(Found(program), "expand bias, bias bias");
}

TEST(FindParameters, RunningStatisticsAreNone) {
  Program program = ASYRA_VALUE(ParseUntyped(R"(
    in x f32[2,4]
    weight bn.running_mean f32[4]
    weight mean f32[4]
    weight bias f32[4]
    h = sub(x, bn.running_mean)
    g = sub(h, mean)
    y = add(g, bias)
    out y)"));
  auto origin = std::make_shared<WeightOrigin>();
  origin->tensor = "mean";
  origin->shape = {4};
  origin->constant = "running statistics of BatchNormalization";
  program.inputs[2].origin = origin;
  WeightRoles roles = FindParameters(program);
  EXPECT_EQ(Found(program), "bias bias");
  ASSERT_EQ(roles.untrained.size(), 2u);
  EXPECT_EQ(roles.untrained[0].reason,
            "running statistics, as their names say");
  EXPECT_EQ(roles.untrained[1].reason, origin->constant);
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

}  // namespace
}  // namespace asyra
