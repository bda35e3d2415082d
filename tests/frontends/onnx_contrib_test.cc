// Norms, experts and fused matmuls, of ONNX Runtime's own ops too: each form
// gives what the same thing written in another way gives. What the ops mean is
// checked against ONNX and ONNX Runtime by onnx_backend.py and
// onnx_contrib_cases.py.
#include <cmath>

#include "gmock/gmock.h"
#include "tests/frontends/contrib_model.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Names = ContribModel::Names;
using Attrs = ContribModel::Attrs;

TEST(Norms, StatisticsAreOutputs) {
  ContribModel model;
  model.Input("x", kF32, {2, 2, 2}).Floats("scale", {1, 1, 1, 1}, {2, 2});
  model.Op("LayerNormalization", {"x", "scale"}, {"y", "mean", "inverse"},
           {{"axis", 1}, {"epsilon", 0.75f}});
  Tensor mean = model.Run("mean");
  EXPECT_EQ(mean.shape(), (Shape{2, 1, 1}));
  EXPECT_THAT(mean.ToDoubles(), ElementsAre(1.5, 5.5));
  EXPECT_NEAR(model.Run("inverse").Get(0), 1 / std::sqrt(2), 1e-6);
}

TEST(Norms, ScaleMayBroadcastInOtherWays) {
  // One number for each row of the last dimension.
  ContribModel model;
  model.Input("x", kF32, {2, 2}).Floats("rows", {1, 10}, {2, 1});
  model.Floats("bias", {5, 7, 5, 7}, {2, 2});
  model.Op("LayerNormalization", {"x", "rows", "bias"}, {"y"},
           {{"epsilon", 0.f}});
  EXPECT_THAT(model.Run("y").ToDoubles(), ElementsAre(4, 8, -5, 17));
  model.Floats("cube", {1, 2}, {2, 1, 1});
  model.last().set_input(1, "cube");
  EXPECT_THAT(model.Output("y").ImportError(), HasSubstr("[2,1,1]"));
}

TEST(Norms, SkipGivesTheSumToo) {
  ContribModel model;
  model.Input("x", kF32, {1, 2}).Floats("skip", {10, 20}, {1, 2});
  model.Floats("bias", {1, 2}, {2}).Floats("ones", {1, 1}, {2});
  model.Contrib("SkipSimplifiedLayerNormalization",
                {"x", "skip", "ones", "bias"}, {"y", "", "", "sum"});
  EXPECT_THAT(model.Run("sum").ToDoubles(), ElementsAre(11, 23));
}

TEST(ContribOps, StatisticsThatNothingReadsNeedNotBeThere) {
  for (const char* op :
       {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}) {
    ContribModel model;
    model.Input("x", kF32, {1, 1, 2}).Floats("ones", {1, 1}, {2});
    model.Contrib(op, {"x", "x", "ones"}, {"y", "mean", "variance", "sum"});
    model.Output("y");
    EXPECT_EQ(model.ImportError(), "");
    EXPECT_THAT(model.Output("variance").ImportError(),
                HasSubstr("output 2, a statistic, is not supported"));
  }
}

// With all of two experts chosen, both are computed for each token.
ContribModel TwoExperts(int width) {
  ContribModel model;
  model.Input("x", kF32, {1, 3, 2});
  model.Random("router", {2, 2}).Random("up", {2, width, 2});
  model.Random("up_bias", {2, width}).Random("down", {2, 2, 4});
  model.Ints("rows", {3, 2}).Ints("e0", {0}, {}).Ints("e1", {1}, {});
  model.Op("MatMul", {"x", "router"}, {"logits3"})
      .Op("Reshape", {"logits3", "rows"}, {"logits"})
      .Op("Softmax", {"logits3"}, {"p"}, {{"axis", -1}});
  return model;
}

TEST(ContribMoe, SumsItsExperts) {
  ContribModel model = TwoExperts(4);
  model.Contrib("MoE", {"x", "logits", "up", "up_bias", "down"}, {"fused"},
                {{"k", 2}, {"activation_type", "silu"}});
  for (const char* e : {"0", "1"}) {
    auto name = [&](const char* stem) { return std::string(stem) + e; };
    for (const char* w : {"up", "up_bias", "down"}) {
      model.Op("Gather", {w, name("e")}, {name(w)});
    }
    model.Op("Gather", {"p", name("e")}, {name("p")}, {{"axis", 2}})
        .Op("Unsqueeze", {name("p"), "last"}, {name("q")})
        .Op("Transpose", {name("up")}, {name("ut")})
        .Op("Transpose", {name("down")}, {name("dt")})
        .Op("MatMul", {"x", name("ut")}, {name("a")})
        .Op("Add", {name("a"), name("up_bias")}, {name("b")})
        .Op("Swish", {name("b")}, {name("c")})
        .Op("MatMul", {name("c"), name("dt")}, {name("d")})
        .Op("Mul", {name("d"), name("q")}, {name("y")});
  }
  model.Ints("last", {-1});
  model.Op("Add", {"y0", "y1"}, {"plain"});
  ExpectSame(model.Run("fused"), model.Run("plain"));
}

TEST(ContribMoe, SwigluPartsMayLieInAnyWay) {
  // The same weights by turns, one after the other, and in two inputs.
  ContribModel model = TwoExperts(8);
  Attrs attrs = {{"k", 2}, {"activation_type", "swiglu"}};
  auto moe = [&](const Names& more, int fusion, const std::string& up) {
    Attrs all = attrs;
    all.emplace_back("swiglu_fusion", fusion);
    Names inputs = {"x", "logits", up, "", "down", ""};
    inputs.insert(inputs.end(), more.begin(), more.end());
    model.Contrib("MoE", inputs, {"y" + std::to_string(fusion)}, all);
  };
  model.Ints("four", {4, 4}).Ints("turns", {0, 4, 1, 5, 2, 6, 3, 7});
  model.Op("Split", {"up", "four"}, {"g", "l"}, {{"axis", 1}})
      .Op("Gather", {"up", "turns"}, {"mixed"}, {{"axis", 1}});
  moe({"l"}, 0, "g");
  moe({}, 1, "mixed");
  moe({}, 2, "up");
  Tensor two = model.Run("y0");
  ExpectSame(model.Run("y1"), two);
  ExpectSame(model.Run("y2"), two);
}

TEST(ContribMoe, RefusesWhatItDoesNotKnow) {
  auto error = [](const Attrs& attrs) {
    ContribModel model = TwoExperts(4);
    model.Contrib("MoE", {"x", "logits", "up", "", "down"}, {"y"}, attrs);
    return model.Output("y").ImportError();
  };
  EXPECT_EQ(error({}), "");
  EXPECT_THAT(error({{"activation_type", "elu"}}),
              HasSubstr("activation_type elu is not supported"));
  EXPECT_THAT(error({{"use_sparse_mixer", 1}}), HasSubstr("use_sparse_mixer"));
  EXPECT_THAT(error({{"k", 3}}), HasSubstr("k is 3, it should be in [1, 2]"));
  EXPECT_THAT(error({{"activation_type", "swiglu"}}),
              HasSubstr("swiglu without input 6"));
}

TEST(ContribOps, FusedMatMulMovesBatchesAndScales) {
  ContribModel model;
  model.Input("x", kF32, {3, 2, 4});
  model.Random("b", {4, 2, 5});
  model.Contrib("FusedMatMul", {"x", "b"}, {"fused"},
                {{"transBatchA", 1}, {"transBatchB", 1}, {"alpha", 0.5f}});
  model.Floats("half", {0.5}, {});
  model
      .Op("Transpose", {"x"}, {"xt"}, {{"perm", std::vector<int64_t>{1, 0, 2}}})
      .Op("Transpose", {"b"}, {"bt"}, {{"perm", std::vector<int64_t>{1, 0, 2}}})
      .Op("MatMul", {"xt", "bt"}, {"matmul"})
      .Op("Mul", {"matmul", "half"}, {"plain"});
  ExpectSame(model.Run("fused"), model.Run("plain"));
}

TEST(ContribOps, EmbedLayerNormalizationLooksUpAndNormalizes) {
  ContribModel model;
  model.I32("ids", {1, 0}, {1, 2}).I32("mask", {1, 0}, {1, 2});
  model.Floats("words", {1, 2, 3, 4}, {2, 2});
  model.Floats("places", {10, 20, 30, 40}, {2, 2});
  model.Floats("ones", {1, 1}, {2}).Floats("zeros", {0, 0}, {2});
  model.Contrib("EmbedLayerNormalization",
                {"ids", "", "words", "places", "", "ones", "zeros", "mask"},
                {"y", "count", "sum"}, {{"epsilon", 0.f}});
  EXPECT_THAT(model.Run("sum").ToDoubles(), ElementsAre(13, 24, 31, 42));
  EXPECT_THAT(model.Run("y").ToDoubles(), ElementsAre(-1, 1, -1, 1));
  EXPECT_THAT(model.Run("count").ToInts(), ElementsAre(1));
}

TEST(ContribOps, FusedGemmKnowsItsActivations) {
  ContribModel model;
  model.Input("x", kF32, {1, 2}).Floats("w", {1, -1, 1, -1}, {2, 2});
  model.Contrib("FusedGemm", {"x", "w"}, {"y"}, {{"activation", "Relu"}});
  EXPECT_THAT(model.Run("y").ToDoubles(), ElementsAre(1, 0));
  model.Contrib("FusedGemm", {"x", "w"}, {"z"}, {{"activation", "Elu"}});
  EXPECT_THAT(model.Output("z").ImportError(),
              HasSubstr("activation Elu is not supported"));
}

}  // namespace
}  // namespace asyra
