// Nodes that find, put and order elements by index.
#include "gmock/gmock.h"
#include "tests/frontends/run_model.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(OnnxIndex, ScattersPutUpdatesAtIndices) {
  auto elements = [](const char* reduction) {
    return RunModel(WithX({2, 3})
                        .Ints("i", {2, -3}, {2, 1})
                        .Floats("u", {10, 20}, {2, 1})
                        .Node("ScatterElements", {"x", "i", "u"}, {"y"},
                              {{"axis", 1}, {"reduction", reduction}}))
        .ToDoubles();
  };
  EXPECT_THAT(elements("none"), ElementsAre(0, 1, 10, 20, 4, 5));
  EXPECT_THAT(elements("add"), ElementsAre(0, 1, 12, 23, 4, 5));
  EXPECT_THAT(elements("min"), ElementsAre(0, 1, 2, 3, 4, 5));
  auto rows =
      WithX({3, 2})
          .Ints("i", {2, 2}, {2, 1})
          .Floats("u", {10, 20, 30, 40}, {2, 2})
          .Node("ScatterND", {"x", "i", "u"}, {"y"}, {{"reduction", "mul"}});
  EXPECT_THAT(RunModel(rows).ToDoubles(),
              ElementsAre(0, 1, 2, 3, 4 * 300, 5 * 800));
}

TEST(OnnxIndex, OneHotTakesItsValues) {
  auto model = WithX({3})
                   .Ints("depth", {2})
                   .Floats("values", {5, 7}, {2})
                   .Node("OneHot", {"x", "depth", "values"}, {"y"});
  EXPECT_THAT(RunModel(model).ToDoubles(), ElementsAre(7, 5, 5, 7, 5, 5));
}

TEST(OnnxIndex, TopKAndArgMax) {
  auto values = WithX({4}).Ints("k", {2}).Node("TopK", {"x", "k"}, {"y", "i"});
  EXPECT_THAT(RunModel(values).ToDoubles(), ElementsAre(3, 2));
  auto indices = WithX({4}).Ints("k", {2}).Node("TopK", {"x", "k"}, {"v", "y"},
                                                {{"largest", 0}});
  EXPECT_THAT(RunModel(indices).ToDoubles(), ElementsAre(0, 1));
  EXPECT_THAT(WithX({4})
                  .Ints("k", {5})
                  .Node("TopK", {"x", "k"}, {"y", "i"})
                  .ImportError(),
              HasSubstr("k is 5, dim 0 has size 4"));
  auto arg = WithX({2, 3}).Node("ArgMax", {"x"}, {"y"},
                                {{"axis", 1}, {"keepdims", 0}});
  EXPECT_THAT(RunModel(arg).ToDoubles(), ElementsAre(2, 2));
}

}  // namespace
}  // namespace asyra
