// ONNX ops one by one, with inputs and results small enough to check by hand.
#include <cmath>

#include "gmock/gmock.h"
#include "tests/frontends/run_model.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(OnnxNode, SliceClampsAndCountsFromTheEnd) {
  auto slice = [](int64_t start, int64_t end, int64_t step) {
    return RunModel(WithX({5})
                        .Ints("starts", {start})
                        .Ints("ends", {end})
                        .Ints("axes", {-1})
                        .Ints("steps", {step})
                        .Node("Slice", {"x", "starts", "ends", "axes", "steps"},
                              {"y"}))
        .ToDoubles();
  };
  EXPECT_THAT(slice(1, 3, 1), ElementsAre(1, 2));
  EXPECT_THAT(slice(-2, INT64_MAX, 1), ElementsAre(3, 4));
  EXPECT_THAT(slice(INT64_MIN, 100, 2), ElementsAre(0, 2, 4));
  EXPECT_THAT(slice(-1, INT64_MIN, -1), ElementsAre(4, 3, 2, 1, 0));
  EXPECT_THAT(slice(100, -4, -2), ElementsAre(4, 2));
  EXPECT_THAT(slice(3, 1, 1), ElementsAre());
}

TEST(OnnxNode, ReshapeForms) {
  auto reshape = [](const std::vector<int64_t>& to, int allow_zero = 0) {
    auto model = WithX({2, 3, 4}).Ints("to", to).Node(
        "Reshape", {"x", "to"}, {"y"}, {{"allowzero", allow_zero}});
    auto program = model.Import();
    return program.ok()
               ? ShapeToString(program->type(program->outputs[0].value).shape())
               : std::string(MessageOf(program.status()));
  };
  EXPECT_EQ(reshape({0, -1}), "[2,12]");
  EXPECT_EQ(reshape({-1}), "[24]");
  EXPECT_EQ(reshape({4, 3, 2}), "[4,3,2]");
  EXPECT_THAT(reshape({5, -1}),
              HasSubstr("24 elements do not fit shape [5,-1]"));
  EXPECT_THAT(reshape({0, 12}, 1), HasSubstr("shape [0,12] has 0"));
  EXPECT_THAT(reshape({-1, -1}), HasSubstr("the shape is"));
  EXPECT_THAT(reshape({1, 1, 1, 0}), HasSubstr("shape[3] is 0"));
  EXPECT_THAT(reshape({INT64_MAX, INT64_MAX}), HasSubstr("24 elements"));
}

TEST(OnnxNode, SplitByCountAndBySizes) {
  auto equal = WithX({7}).Node("Split", {"x"}, {"a", "b", "y"},
                               {{"num_outputs", 3}, {"axis", 0}});
  EXPECT_THAT(RunModel(equal).ToDoubles(), ElementsAre(6));
  auto sizes = WithX({7})
                   .Ints("sizes", {5, 2})
                   .Node("Split", {"x", "sizes"}, {"a", "y"});
  EXPECT_THAT(RunModel(sizes).ToDoubles(), ElementsAre(5, 6));
  EXPECT_THAT(WithX({7})
                  .Ints("sizes", {5, 1})
                  .Node("Split", {"x", "sizes"}, {"a", "y"})
                  .ImportError(),
              HasSubstr("6 rows together, dim 0 has size 7"));
}

TEST(OnnxNode, SequencesAreTakenApart) {
  auto model = [](int64_t at) {
    return WithX({6})
        .Ints("size", {4}, {})
        .Ints("at", {at}, {})
        .Node("SplitToSequence", {"x", "size"}, {"parts"})
        .Node("SequenceAt", {"parts", "at"}, {"y"});
  };
  EXPECT_THAT(RunModel(model(-1)).ToDoubles(), ElementsAre(4, 5));
  EXPECT_THAT(model(2).ImportError(),
              HasSubstr("position 2 of a sequence of 2"));
  EXPECT_THAT(WithX({6})
                  .Node("SplitToSequence", {"x"}, {"parts"})
                  .Node("Neg", {"parts"}, {"y"})
                  .ImportError(),
              HasSubstr("input 'parts' is a sequence"));
}

TEST(OnnxNode, ReduceAxesAreAnAttributeThenAnInput) {
  auto old = WithX({2, 3}, 13)
                 .Node("ReduceMean", {"x"}, {"y"},
                       {{"axes", std::vector<int64_t>{1}}, {"keepdims", 0}});
  EXPECT_THAT(RunModel(old).ToDoubles(), ElementsAre(1, 4));
  auto now = WithX({2, 3})
                 .Ints("axes", {-1})
                 .Node("ReduceMean", {"x", "axes"}, {"y"}, {{"keepdims", 0}});
  EXPECT_THAT(RunModel(now).ToDoubles(), ElementsAre(1, 4));
  EXPECT_THAT(
      RunModel(WithX({2, 3}).Node("ReduceSum", {"x"}, {"y"})).ToDoubles(),
      ElementsAre(15));
  EXPECT_THAT(RunModel(WithX({3}).Node("ReduceSum", {"x"}, {"y"},
                                       {{"noop_with_empty_axes", 1}}))
                  .ToDoubles(),
              ElementsAre(0, 1, 2));
}

TEST(OnnxNode, PowGivesTheTypeOfItsBase) {
  Tensor y = RunModel(WithX({4})
                          .Floats("half", {0.5}, {})
                          .Node("Cast", {"x"}, {"i"}, {{"to", kI64}})
                          .Node("Pow", {"i", "half"}, {"y"}));
  EXPECT_THAT(y.ToInts(), ElementsAre(0, 1, 1, 1));
}

TEST(OnnxNode, GemmScalesAndTransposes) {
  auto model = WithX({2, 3})
                   .Floats("w", {1, 0, 0, 0, 1, 0}, {2, 3})
                   .Floats("bias", {10, 20}, {2})
                   .Node("Gemm", {"x", "w", "bias"}, {"y"},
                         {{"transB", 1}, {"alpha", 2.f}, {"beta", 0.5f}});
  EXPECT_THAT(RunModel(model).ToDoubles(), ElementsAre(5, 12, 11, 18));
}

TEST(OnnxNode, MatMulOfVectorsDropsTheirDims) {
  auto column = WithX({2, 3})
                    .Floats("v", {1, 10, 100}, {3})
                    .Node("MatMul", {"x", "v"}, {"y"});
  Tensor y = RunModel(column);
  EXPECT_EQ(y.shape(), (Shape{2}));
  EXPECT_THAT(y.ToDoubles(), ElementsAre(210, 543));
  auto row = WithX({2})
                 .Floats("w", {1, 2, 3, 4}, {2, 2})
                 .Node("MatMul", {"x", "w"}, {"y"});
  EXPECT_THAT(RunModel(row).ToDoubles(), ElementsAre(3, 4));
}

TEST(OnnxNode, GatherElementsPicksAlongItsAxis) {
  auto model =
      WithX({2, 3})
          .Ints("index", {2, 0, 1, -1}, {2, 2})
          .Node("GatherElements", {"x", "index"}, {"y"}, {{"axis", 1}});
  EXPECT_THAT(RunModel(model).ToDoubles(), ElementsAre(2, 0, 4, 5));
}

TEST(OnnxNode, TriluKeepsOneSide) {
  auto model = [](int upper, int64_t k) {
    return RunModel(WithX({3, 3})
                        .Ints("k", {k}, {})
                        .Node("Trilu", {"x", "k"}, {"y"}, {{"upper", upper}}))
        .ToDoubles();
  };
  EXPECT_THAT(model(1, 1), ElementsAre(0, 1, 2, 0, 0, 5, 0, 0, 0));
  EXPECT_THAT(model(0, 0), ElementsAre(0, 0, 0, 3, 4, 0, 6, 7, 8));
  EXPECT_THAT(model(0, -INT64_MAX), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(OnnxNode, AttentionTakesBothLayouts) {
  // One head that sees itself and what comes before, with equal scores: the
  // running mean of v.
  auto three =
      WithX({1, 4, 2}, 23)
          .Floats("zero", std::vector<float>(8), {1, 4, 2})
          .Node("Attention", {"zero", "zero", "x"}, {"y"},
                {{"is_causal", 1}, {"q_num_heads", 1}, {"kv_num_heads", 1}});
  EXPECT_THAT(RunModel(three).ToDoubles(), ElementsAre(0, 1, 1, 2, 2, 3, 3, 4));
  auto four =
      WithX({1, 1, 4, 2}, 23)
          .Floats("zero", std::vector<float>(8), {1, 1, 4, 2})
          .Node("Attention", {"zero", "zero", "x"}, {"y"}, {{"is_causal", 1}});
  Tensor y = RunModel(four);
  EXPECT_EQ(y.shape(), (Shape{1, 1, 4, 2}));
  EXPECT_THAT(y.ToDoubles(), ElementsAre(0, 1, 1, 2, 2, 3, 3, 4));
}

TEST(OnnxNode, AttentionRefusesWhatItCannotDo) {
  auto model = [](const std::vector<std::string>& outputs,
                  const std::pair<std::string, ModelBuilder::Attr>& attr) {
    ModelBuilder builder = WithX({1, 4, 6}, 23);
    builder.Node("Attention", {"x", "x", "x"}, outputs,
                 {attr, {"kv_num_heads", 1}});
    if (outputs.size() > 1) builder.Output(outputs.back());
    return builder.ImportError();
  };
  EXPECT_THAT(model({"y"}, {"q_num_heads", 4}),
              HasSubstr("input 0 has 6 columns, q_num_heads is 4"));
  EXPECT_THAT(model({"y", "", "", "qk"}, {"q_num_heads", 1}),
              HasSubstr("output qk_matmul_output is not supported"));
}

TEST(OnnxNode, ElementTypesDoNotWrap) {
  auto cast = WithX({2}).Node("Cast", {"x"}, {"y"}, {{"to", kF32}});
  cast.last().mutable_attribute(0)->set_i((int64_t{1} << 32) + kF32);
  EXPECT_THAT(cast.ImportError(),
              HasSubstr("element type 4294967297 is not supported"));
}

TEST(OnnxNode, OutputsThatNothingReadsNeedNotBeThere) {
  auto pool = WithX({1, 1, 4}, 18)
                  .Node("MaxPool", {"x"}, {"y", "indices"},
                        {{"kernel_shape", std::vector<int64_t>{2}}});
  EXPECT_THAT(RunModel(pool).ToDoubles(), ElementsAre(1, 2, 3));
  EXPECT_THAT(pool.Output("indices").ImportError(),
              HasSubstr("output 1, the indices, is not supported"));
  auto norm = WithX({2, 2}, 23)
                  .Floats("scale", {1, 1}, {2})
                  .Node("LayerNormalization", {"x", "scale"},
                        {"y", "mean", "deviation"});
  EXPECT_EQ(ASYRA_VALUE(norm.Import()).ops.size(), 1u);
  auto attention =
      WithX({1, 1, 2, 3}, 23)
          .Node("Attention", {"x", "x", "x"}, {"y", "keys", "values", "qk"});
  EXPECT_EQ(attention.ImportError(), "");
}

// One that a branch reads is read.
TEST(OnnxNode, OutputsAreReadBySubgraphs) {
  auto branch = [](const char* reads) {
    return ModelBuilder().Node("Identity", {reads}, {"r"}).Output("r").graph();
  };
  auto model = WithX({1, 1, 4}, 18)
                   .Node("Constant", {}, {"yes"}, {{"value_int", 1}})
                   .Node("Cast", {"yes"}, {"is"}, {{"to", kBool}})
                   .Node("MaxPool", {"x"}, {"pooled", "indices"},
                         {{"kernel_shape", std::vector<int64_t>{2}}})
                   .Node("If", {"is"}, {"y"},
                         {{"then_branch", branch("pooled")},
                          {"else_branch", branch("indices")}});
  EXPECT_THAT(model.ImportError(), HasSubstr("output 1, the indices"));
}

TEST(OnnxNode, LayerNormMayReachOverSeveralDims) {
  auto model = WithX({1, 2, 2}, 18)
                   .Floats("scale", {1, 1, 1, 2}, {2, 2})
                   .Node("LayerNormalization", {"x", "scale"}, {"y"},
                         {{"axis", 1}, {"epsilon", 0.f}});
  Tensor y = RunModel(model);
  EXPECT_EQ(y.shape(), (Shape{1, 2, 2}));
  double unit = 1 / std::sqrt(1.25);
  EXPECT_NEAR(y.Get(0), -1.5 * unit, 1e-6);
  EXPECT_NEAR(y.Get(3), 3 * unit, 1e-6);
}

TEST(OnnxNode, DropoutInTrainingIsRefused) {
  ModelBuilder model = WithX({4}).Floats("ratio", {0.5}, {});
  model.Initializer("training", kBool, {})->add_int32_data(1);
  EXPECT_THAT(
      model.Node("Dropout", {"x", "ratio", "training"}, {"y"}).ImportError(),
      HasSubstr("training mode draws randomness"));
}

}  // namespace
}  // namespace asyra
