// Nodes that become several IR ops.
#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "tests/frontends/run_model.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::Pointwise;
using Sizes = std::vector<int64_t>;

TEST(OnnxSpelled, EinsumContractsWhatTheOutputLacks) {
  auto einsum = [](const char* equation) {
    return RunModel(
        WithX({2, 3})
            .Floats("w", {1, 0, 0, 1, 1, 1}, {3, 2})
            .Node("Einsum", {"x", "w"}, {"y"}, {{"equation", equation}}));
  };
  EXPECT_THAT(einsum("ij,jk->ik").ToDoubles(), ElementsAre(2, 3, 8, 9));
  EXPECT_THAT(einsum("ij, jk -> ki").ToDoubles(), ElementsAre(2, 8, 3, 9));
  EXPECT_THAT(einsum("ij,jk").ToDoubles(), ElementsAre(2, 3, 8, 9));
  EXPECT_THAT(einsum("ij,ji->").ToDoubles(), ElementsAre(11));
  EXPECT_THAT(einsum("ij,jk->j").ToDoubles(), ElementsAre(3, 5, 14));
  EXPECT_EQ(einsum("ij,ka->aikj").shape(), (Shape{2, 2, 3, 3}));
  auto outer =
      WithX({2}).Node("Einsum", {"x", "x"}, {"y"}, {{"equation", "i,j->ij"}});
  EXPECT_THAT(RunModel(outer).ToDoubles(), ElementsAre(0, 0, 0, 1));
  auto batch =
      WithX({2, 1, 2})
          .Floats("w", {1, 10, 100, 1000}, {2, 2})
          .Node("Einsum", {"x", "w"}, {"y"}, {{"equation", "...i,...i->..."}});
  EXPECT_EQ(RunModel(batch).shape(), (Shape{2, 2}));
  auto one =
      WithX({2, 3}).Node("Einsum", {"x"}, {"y"}, {{"equation", "ab->b"}});
  EXPECT_THAT(RunModel(one).ToDoubles(), ElementsAre(3, 5, 7));
}

TEST(OnnxSpelled, EinsumRefusesWhatDoesNotFit) {
  auto error = [](const char* equation) {
    return WithX({2, 3})
        .Node("Einsum", {"x", "x"}, {"y"}, {{"equation", equation}})
        .ImportError();
  };
  EXPECT_THAT(error("ij,jk->ik"), HasSubstr("a label has sizes 3 and 2"));
  EXPECT_THAT(error("ijk,jk->ik"), HasSubstr("'ijk' for an input of rank 2"));
  EXPECT_THAT(error("ii,jk->jk"), HasSubstr("label i twice in term 'ii'"));
  EXPECT_THAT(error("ij->ij"), HasSubstr("for 2 inputs"));
  EXPECT_THAT(error("ij,ij->k"), HasSubstr("an output label has no input"));
}

TEST(OnnxSpelled, ResizeInterpolates) {
  auto resize = [](const char* mode, const char* coordinates) {
    return RunModel(
               WithX({1, 1, 1, 2})
                   .Ints("sizes", {1, 1, 1, 4})
                   .Node("Resize", {"x", "", "", "sizes"}, {"y"},
                         {{"mode", mode},
                          {"coordinate_transformation_mode", coordinates}}))
        .ToDoubles();
  };
  EXPECT_THAT(resize("nearest", "asymmetric"), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(resize("linear", "half_pixel"), ElementsAre(0, 0.25, 0.75, 1));
  Doubles corners = resize("linear", "align_corners");
  Doubles thirds = {0, 1.0 / 3, 2.0 / 3, 1};
  EXPECT_THAT(corners, Pointwise(testing::DoubleNear(1e-6), thirds));
  auto whole =
      WithX({1, 1, 2, 2})
          .Floats("scales", {1, 1, 0.5, 1}, {4})
          .Node("Resize", {"x", "", "scales"}, {"y"}, {{"mode", "linear"}});
  EXPECT_THAT(RunModel(whole).ToDoubles(), ElementsAre(1, 2));
}

TEST(OnnxSpelled, ResizeRefusesWhatIsNoSize) {
  auto sizes = [](Sizes given) {
    return WithX({1, 1, 1, 2})
        .Ints("sizes", given)
        .Node("Resize", {"x", "", "", "sizes"}, {"y"})
        .ImportError();
  };
  EXPECT_THAT(sizes({1, 1, -4, 4}), HasSubstr("sizes[2] is -4"));
  EXPECT_THAT(sizes({1, 1, 1, int64_t{1} << 40}),
              HasSubstr("from size 2 to 1099511627776"));
  auto scales = [](float scale) {
    return WithX({1, 1, 1, 2})
        .Floats("scales", {1, 1, scale, 1}, {4})
        .Node("Resize", {"x", "", "scales"}, {"y"})
        .ImportError();
  };
  EXPECT_THAT(scales(-1), HasSubstr("scales[2] is -1, it must be above 0"));
  EXPECT_THAT(scales(0), HasSubstr("scales[2] is 0, it must be above 0"));
  EXPECT_THAT(scales(NAN), HasSubstr("scales[2] is nan, it must be above 0"));
  EXPECT_THAT(scales(HUGE_VALF), HasSubstr("from size 1 to inf"));
  EXPECT_THAT(scales(1e9f), HasSubstr("from size 1 to 1000000000"));
}

TEST(OnnxSpelled, ResizeSpreadsAnInfinityToItsNeighboursOnly) {
  auto model = WithX({1, 1, 1, 4})
                   .Floats("one", {1}, {1})
                   .Floats("ones", {0, 1, 1, 0}, {1, 1, 1, 4})
                   .Floats("scales", {1, 1, 1, 2}, {4})
                   .Node("Add", {"x", "one"}, {"more"})
                   .Node("Div", {"more", "ones"}, {"infinite"})
                   .Node("Resize", {"infinite", "", "scales"}, {"y"},
                         {{"mode", "linear"}});
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_THAT(RunModel(model).ToDoubles(),
              ElementsAre(kInf, kInf, kInf, 2.25, 2.75, kInf, kInf, kInf));
}

TEST(OnnxSpelled, NormsOfChannels) {
  ModelBuilder model = WithX({1, 2, 2});
  model.Floats("s", {1, 10}, {2}).Floats("b", {0, 1}, {2});
  auto instance = model;
  instance.Node("InstanceNormalization", {"x", "s", "b"}, {"y"},
                {{"epsilon", 0.f}});
  EXPECT_THAT(RunModel(instance).ToDoubles(), ElementsAre(-1, 1, -9, 11));
  auto batch = model;
  batch.Floats("m", {0, 2}, {2})
      .Floats("v", {1, 4}, {2})
      .Node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"},
            {{"epsilon", 0.f}});
  EXPECT_THAT(RunModel(batch).ToDoubles(), ElementsAre(0, 1, 1, 6));
  auto group = WithX({1, 2, 2}, 21)
                   .Floats("s", {1, 10}, {2})
                   .Floats("b", {0, 1}, {2})
                   .Node("GroupNormalization", {"x", "s", "b"}, {"y"},
                         {{"num_groups", 2}, {"epsilon", 0.f}});
  EXPECT_THAT(RunModel(group).ToDoubles(), ElementsAre(-1, 1, -9, 11));
}

TEST(OnnxSpelled, ElementsRepeatedAndMoved) {
  auto tile = WithX({1, 2}).Ints("r", {2, 2}).Node("Tile", {"x", "r"}, {"y"});
  EXPECT_THAT(RunModel(tile).ToDoubles(), ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
  auto depth = WithX({1, 4, 1, 1})
                   .Node("DepthToSpace", {"x"}, {"y"}, {{"blocksize", 2}});
  EXPECT_EQ(RunModel(depth).shape(), (Shape{1, 1, 2, 2}));
  auto space = WithX({1, 1, 2, 2})
                   .Node("SpaceToDepth", {"x"}, {"y"}, {{"blocksize", 2}});
  EXPECT_EQ(RunModel(space).shape(), (Shape{1, 4, 1, 1}));
  for (const char* op : {"DepthToSpace", "SpaceToDepth"}) {
    for (int64_t size : {int64_t{0}, int64_t{-2}, int64_t{1} << 32}) {
      EXPECT_THAT(WithX({1, 4, 0, 0})
                      .Node(op, {"x"}, {"y"}, {{"blocksize", size}})
                      .ImportError(),
                  HasSubstr("blocks of " + std::to_string(size)));
    }
  }
  auto eye = WithX({2, 3}).Node("EyeLike", {"x"}, {"y"}, {{"k", 1}});
  EXPECT_THAT(RunModel(eye).ToDoubles(), ElementsAre(0, 1, 0, 0, 0, 1));
}

TEST(OnnxSpelled, NonZeroOfWhatIsKnown) {
  auto known = WithX({2})
                   .Ints("mask", {0, 1, 1, 0}, {2, 2})
                   .Node("NonZero", {"mask"}, {"where"})
                   .Node("Cast", {"where"}, {"y"}, {{"to", kF32}});
  EXPECT_THAT(RunModel(known).ToDoubles(), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(WithX({2}).Node("NonZero", {"x"}, {"y"}).ImportError(),
              HasSubstr("depends on the model's data"));
}

TEST(OnnxSpelled, Reductions) {
  auto reduce = [](const char* op) {
    return RunModel(WithX({3}).Node(op, {"x"}, {"y"}, {{"keepdims", 0}}))
        .Get(0);
  };
  EXPECT_EQ(reduce("ReduceProd"), 0);
  EXPECT_EQ(reduce("ReduceL1"), 3);
  EXPECT_NEAR(reduce("ReduceLogSum"), std::log(3), 1e-6);
  EXPECT_NEAR(reduce("ReduceLogSumExp"),
              std::log(1 + std::exp(1) + std::exp(2)), 1e-6);
}

TEST(OnnxSpelled, LossOfLabelsThatCount) {
  auto loss = [](const char* reduction, bool ignore) {
    auto model = WithX({2, 2}).Ints("labels", {0, 1});
    std::vector<std::pair<std::string, ModelBuilder::Attr>> attrs = {
        {"reduction", reduction}};
    if (ignore) attrs.emplace_back("ignore_index", 1);
    model.Node("SoftmaxCrossEntropyLoss", {"x", "labels"}, {"y"}, attrs);
    return RunModel(model).ToDoubles();
  };
  // Both rows differ by 1 between their classes.
  double low = std::log(1 + std::exp(1)), high = std::log(1 + std::exp(-1));
  auto near = [](double value) { return testing::DoubleNear(value, 1e-6); };
  EXPECT_THAT(loss("none", false), ElementsAre(near(low), near(high)));
  EXPECT_THAT(loss("sum", false), ElementsAre(near(low + high)));
  EXPECT_THAT(loss("mean", false), ElementsAre(near((low + high) / 2)));
  EXPECT_THAT(loss("mean", true), ElementsAre(near(low)));
}

// Classes count 1 and 3, a label -1 not at all.
TEST(OnnxSpelled, LossesOfWeightedClasses) {
  auto loss = [](const char* op, const char* reduction, bool weighted) {
    auto model =
        WithX({3, 2}).Ints("labels", {0, 1, -1}).Floats("w", {1, 3}, {2});
    std::vector<std::string> inputs = {"x", "labels"};
    if (weighted) inputs.push_back("w");
    model.Node(op, inputs, {"y"},
               {{"reduction", reduction}, {"ignore_index", -1}});
    return RunModel(model).ToDoubles();
  };
  auto near = [](double value) { return testing::DoubleNear(value, 1e-6); };
  double low = std::log(1 + std::exp(1)), high = std::log(1 + std::exp(-1));
  const char* entropy = "SoftmaxCrossEntropyLoss";
  EXPECT_THAT(loss(entropy, "none", true),
              ElementsAre(near(low), near(3 * high), near(0)));
  EXPECT_THAT(loss(entropy, "sum", true), ElementsAre(near(low + 3 * high)));
  EXPECT_THAT(loss(entropy, "mean", true),
              ElementsAre(near((low + 3 * high) / 4)));
  // x is 0, 1, 2, ...
  const char* likelihood = "NegativeLogLikelihoodLoss";
  EXPECT_THAT(loss(likelihood, "none", true),
              ElementsAre(near(0), near(-9), near(0)));
  EXPECT_THAT(loss(likelihood, "none", false),
              ElementsAre(near(0), near(-3), near(0)));
  EXPECT_THAT(loss(likelihood, "mean", true), ElementsAre(near(-9.0 / 4)));
  EXPECT_THAT(loss(likelihood, "mean", false), ElementsAre(near(-1.5)));
}

TEST(OnnxSpelled, LabelsAndClassesMustFit) {
  auto error = [](const char* op, std::vector<float> weights) {
    auto count = static_cast<int64_t>(weights.size());
    auto model = WithX({2, 2}).Ints("labels", {0, 1});
    model.Floats("w", std::move(weights), {count});
    model.Node(op, {"x", "labels", "w"}, {"y"});
    return model.ImportError();
  };
  for (const char* op :
       {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) {
    EXPECT_EQ(error(op, {1, 2}), "");
    EXPECT_THAT(error(op, {1, 2, 3}),
                testing::HasSubstr("weights of classes are [3], for scores "
                                   "[2,2] they should be [2]"));
  }
}

TEST(OnnxSpelled, Activations) {
  auto at = [](const char* op, double x) {
    auto model = WithX({1})
                     .Floats("shift", {static_cast<float>(x)}, {1})
                     .Node("Add", {"x", "shift"}, {"z"})
                     .Node(op, {"z"}, {"y"});
    return RunModel(model).Get(0);
  };
  EXPECT_NEAR(at("Selu", -1), 1.0507 * 1.67326 * (std::exp(-1) - 1), 1e-4);
  EXPECT_NEAR(at("Celu", -1), std::exp(-1) - 1, 1e-6);
  EXPECT_NEAR(at("LeakyRelu", -1), -0.01, 1e-8);
  EXPECT_NEAR(at("HardSigmoid", 1), 0.7, 1e-6);
  EXPECT_NEAR(at("ThresholdedRelu", 0.5), 0, 0);
  EXPECT_NEAR(at("Softsign", -3), -0.75, 1e-6);
  EXPECT_NEAR(at("Softplus", 0), std::log(2), 1e-6);
}

}  // namespace
}  // namespace asyra
