// ONNX's own attention in every form: each gives what the same thing written in
// another way gives. What the ops mean is checked against ONNX by
// onnx_backend.py.
#include "gmock/gmock.h"
#include "tests/frontends/contrib_model.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One head, queries and keys of zeros: a row is the mean of the v that it
// sees, which is its index.
ContribModel Positions(int queries, int keys) {
  ContribModel model;
  model.Floats("q", std::vector<float>(queries), {1, 1, queries, 1});
  model.Floats("k", std::vector<float>(keys), {1, 1, keys, 1});
  model.Input("x", kF32, {1, 1, keys, 1});
  return model;
}

TEST(OnnxAttention, CausalQueriesComeAfterTheirPast) {
  ContribModel model = Positions(2, 2);
  model.Floats("pk", {0, 0, 0}, {1, 1, 3, 1});
  model.Floats("pv", {-3, -2, -1}, {1, 1, 3, 1});
  model.Op("Attention", {"q", "k", "x", "", "pk", "pv"}, {"y", "nk", "nv"},
           {{"is_causal", 1}});
  EXPECT_THAT(model.Run("y").ToDoubles(), ElementsAre(-1.5, -1));
  EXPECT_THAT(model.Run("nv").ToDoubles(), ElementsAre(-3, -2, -1, 0, 1));
  EXPECT_EQ(model.Run("nk").shape(), (Shape{1, 1, 5, 1}));
  model.last().set_input(5, "");
  EXPECT_THAT(model.Output("y").ImportError(),
              HasSubstr("one of past_key and past_value is left out"));
}

TEST(OnnxAttention, LengthsSayWhereTheQueriesStand) {
  ContribModel model = Positions(2, 5);
  model.Ints("length", {4});
  model.Op("Attention", {"q", "k", "x", "", "", "", "length"}, {"all"});
  EXPECT_THAT(model.Run("all").ToDoubles(), ElementsAre(1.5, 1.5));
  model.Op("Attention", {"q", "k", "x", "", "", "", "length"}, {"causal"},
           {{"is_causal", 1}});
  EXPECT_THAT(model.Run("causal").ToDoubles(), ElementsAre(1, 1.5));
}

TEST(OnnxAttention, WindowsReachToBothSides) {
  ContribModel model = Positions(4, 4);
  model.model.mutable_opset_import(0)->set_version(25);
  model.Op("Attention", {"q", "k", "x"}, {"left"},
           {{"left_window_size", 1}, {"is_causal", 1}});
  EXPECT_THAT(model.Run("left").ToDoubles(), ElementsAre(0, 0.5, 1.5, 2.5));
  model.Op("Attention", {"q", "k", "x"}, {"both"},
           {{"left_window_size", 0}, {"right_window_size", 1}});
  EXPECT_THAT(model.Run("both").ToDoubles(), ElementsAre(0.5, 1.5, 2.5, 3));
  model.Op("Attention", {"q", "k", "x"}, {"bad"}, {{"left_window_size", -2}});
  EXPECT_THAT(model.Output("bad").ImportError(),
              HasSubstr("left_window_size is -2"));
}

TEST(OnnxAttention, CausalAndAWindowAreAttributes) {
  ContribModel model = Positions(4, 4);
  model.model.mutable_opset_import(0)->set_version(25);
  model.Op("Attention", {"q", "k", "x"}, {"y"},
           {{"left_window_size", 1}, {"is_causal", 1}});
  Program program = ASYRA_VALUE(model.Output("y").Import());
  for (const Op& op : program.ops) {
    if (op.def->name != "attention") continue;
    EXPECT_EQ(op.operands.size(), 3u);
    EXPECT_TRUE(op.attrs.Bool("causal"));
    EXPECT_EQ(op.attrs.Int("window"), 2);
    return;
  }
  FAIL() << "there is no attention";
}

TEST(OnnxAttention, AMaskMayEndBeforeTheKeys) {
  ContribModel model = Positions(2, 4);
  onnx::TensorProto* mask = model.Initializer("mask", kBool, {3});
  for (int value : {0, 1, 1}) mask->add_int32_data(value);
  model.Op("Attention", {"q", "k", "x", "mask"}, {"y"});
  EXPECT_THAT(model.Run("y").ToDoubles(), ElementsAre(1.5, 1.5));
  model.Floats("added", {-100, 0, 0}, {1, 3});
  model.last().set_input(3, "added");
  EXPECT_THAT(model.Run("y").ToDoubles(), ElementsAre(1.5, 1.5));
}

TEST(OnnxAttention, CachesAreWrittenOutsideOfIt) {
  ContribModel model;
  model.Floats("cache", std::vector<float>(10, -1), {2, 5, 1});
  model.Input("x", kF32, {2, 2, 1}).Ints("at", {0, 4});
  model.Op("TensorScatter", {"cache", "x", "at"}, {"line"});
  model.Op("TensorScatter", {"cache", "x", "at"}, {"ring"},
           {{"mode", "circular"}});
  EXPECT_THAT(model.Run("line").ToDoubles(),
              ElementsAre(0, 1, -1, -1, -1, -1, -1, -1, -1, 2));
  EXPECT_THAT(model.Run("ring").ToDoubles(),
              ElementsAre(0, 1, -1, -1, -1, 3, -1, -1, -1, 2));
  model.Op("TensorScatter", {"x", "cache"}, {"y"});
  EXPECT_THAT(model.Output("y").ImportError(),
              HasSubstr("the update has shape [2,5,1], the cache [2,2,1]"));
}

}  // namespace
}  // namespace asyra
