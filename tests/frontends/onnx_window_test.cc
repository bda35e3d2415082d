// Convolutions, pools and pads.
#include "gmock/gmock.h"
#include "tests/frontends/run_model.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Sizes = std::vector<int64_t>;

TEST(OnnxWindow, ConvCorrelatesAndAddsItsBias) {
  auto model = WithX({1, 1, 3, 3})
                   .Floats("w", {1, 0, 0, 1}, {1, 1, 2, 2})
                   .Floats("b", {100}, {1})
                   .Node("Conv", {"x", "w", "b"}, {"y"});
  EXPECT_THAT(RunModel(model).ToDoubles(), ElementsAre(104, 106, 110, 112));
}

TEST(OnnxWindow, ConvOfGroupsReadsItsOwnChannels) {
  auto model = WithX({1, 2, 3})
                   .Floats("w", {1, 1, 10, 10}, {2, 1, 2})
                   .Node("Conv", {"x", "w"}, {"y"}, {{"group", 2}});
  EXPECT_THAT(RunModel(model).ToDoubles(), ElementsAre(1, 3, 70, 90));
  EXPECT_THAT(WithX({1, 2, 3})
                  .Floats("w", {1, 1, 10, 10}, {2, 1, 2})
                  .Node("Conv", {"x", "w"}, {"y"})
                  .ImportError(),
              HasSubstr("2 channels in 1 groups, the weight takes 1 of each"));
}

TEST(OnnxWindow, AutoPadPutsTheOddZeroAtOneEnd) {
  auto conv = [](const char* form) {
    return RunModel(WithX({1, 1, 3})
                        .Floats("w", {1, 10}, {1, 1, 2})
                        .Node("Conv", {"x", "w"}, {"y"}, {{"auto_pad", form}}))
        .ToDoubles();
  };
  EXPECT_THAT(conv("SAME_UPPER"), ElementsAre(10, 21, 2));
  EXPECT_THAT(conv("SAME_LOWER"), ElementsAre(0, 10, 21));
  EXPECT_THAT(conv("VALID"), ElementsAre(10, 21));
}

TEST(OnnxWindow, ConvTransposeSpreadsItsInput) {
  auto model = WithX({1, 1, 3})
                   .Floats("w", {1, 10, 100}, {1, 1, 3})
                   .Node("ConvTranspose", {"x", "w"}, {"y"},
                         {{"strides", Sizes{2}}, {"pads", Sizes{1, 0}}});
  EXPECT_THAT(RunModel(model).ToDoubles(), ElementsAre(0, 1, 10, 102, 20, 200));
}

TEST(OnnxWindow, ConvTransposeOfAGivenSize) {
  auto sized = [](int64_t size) {
    return RunModel(WithX({1, 1, 2})
                        .Floats("w", {1, 10, 100}, {1, 1, 3})
                        .Node("ConvTranspose", {"x", "w"}, {"y"},
                              {{"strides", Sizes{2}},
                               {"output_shape", Sizes{size}}}))
        .ToDoubles();
  };
  // Of the five results 0 0 1 10 100 the first is left out, or a zero added.
  EXPECT_THAT(sized(4), ElementsAre(0, 1, 10, 100));
  EXPECT_THAT(sized(6), ElementsAre(0, 0, 1, 10, 100, 0));
}

TEST(OnnxWindow, PoolsOfPartsOfTheInput) {
  auto pool = [](const char* op, int ceil, int count) {
    auto model = WithX({1, 1, 5});
    ModelBuilder& built = model.Node(op, {"x"}, {"y"},
                                     {{"kernel_shape", Sizes{3}},
                                      {"strides", Sizes{3}},
                                      {"pads", Sizes{1, 0}},
                                      {"ceil_mode", ceil}});
    if (count >= 0) {
      auto* attr = built.graph().mutable_node(0)->add_attribute();
      attr->set_name("count_include_pad");
      attr->set_type(onnx::AttributeProto::INT);
      attr->set_i(count);
    }
    return RunModel(built).ToDoubles();
  };
  // Windows (pad 0 1) (2 3 4), and none behind.
  EXPECT_THAT(pool("MaxPool", 0, -1), ElementsAre(1, 4));
  EXPECT_THAT(pool("AveragePool", 1, 0), ElementsAre(0.5, 3));
  EXPECT_THAT(pool("AveragePool", 0, 1),
              ElementsAre(testing::DoubleNear(1.0 / 3, 1e-6), 3));
  auto global = WithX({1, 2, 2, 2}).Node("GlobalAveragePool", {"x"}, {"y"});
  EXPECT_THAT(RunModel(global).ToDoubles(), ElementsAre(1.5, 5.5));
}

TEST(OnnxWindow, PadAddsAndLeavesOut) {
  auto pad = [](const char* mode, const Sizes& pads) {
    return RunModel(WithX({4})
                        .Ints("pads", pads)
                        .Floats("value", {9}, {})
                        .Node("Pad", {"x", "pads", "value"}, {"y"},
                              {{"mode", mode}}))
        .ToDoubles();
  };
  EXPECT_THAT(pad("constant", {1, 2}), ElementsAre(9, 0, 1, 2, 3, 9, 9));
  EXPECT_THAT(pad("constant", {-2, 1}), ElementsAre(2, 3, 9));
  EXPECT_THAT(pad("reflect", {2, 1}), ElementsAre(2, 1, 0, 1, 2, 3, 2));
  EXPECT_THAT(pad("edge", {1, 1}), ElementsAre(0, 0, 1, 2, 3, 3));
  EXPECT_THAT(pad("wrap", {1, 1}), ElementsAre(3, 0, 1, 2, 3, 0));
  EXPECT_THAT(pad("edge", {0, 0}), ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace asyra
