// Inputs are data, unless the file is an export without its weights.
#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "ir/weights/weight_store.h"
#include "tests/frontends/model_builder.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Names = std::vector<std::string>;

Names WeightsOf(const Program& program) {
  Names names;
  for (const Input& input : program.inputs) {
    if (input.role != InputRole::kWeight) continue;
    const std::string& name = program.value_name(input.value);
    if (program.weights->Find(name) == nullptr) names.push_back(name);
  }
  return names;
}

Names WeightsOf(const ModelBuilder& model, ImportOptions options = {}) {
  return WeightsOf(ASYRA_VALUE(model.Import(options)));
}

// A decoder layer's worth of what a stripped export has.
ModelBuilder Stripped() {
  return ModelBuilder()
      .Input("ids", kI64, {2, 4})
      .Input("table", kF32, {16, 8})
      .Input("scale", kF32, {8})
      .Input("up", kF32, {24, 8})
      .Input("down", kF32, {24, 8})
      .Input("mask", kF32, {1, 4, 4})
      .Node("Gather", {"table", "ids"}, {"e"})
      .Node("Mul", {"e", "scale"}, {"n"})
      .Node("Transpose", {"up"}, {"up_t"},
            {{"perm", std::vector<int64_t>{1, 0}}})
      .Node("MatMul", {"n", "up_t"}, {"u"})
      .Node("MatMul", {"u", "down"}, {"d"})
      .Node("MatMul", {"mask", "d"}, {"y"})
      .Output("y");
}

TEST(OnnxRoles, InputsOfAStrippedExportThatStandWhereWeightsDoAreWeights) {
  Program program = ASYRA_VALUE(Stripped().Import());
  EXPECT_THAT(WeightsOf(program), ElementsAre("table", "scale", "up", "down"));
  EXPECT_EQ(program.inputs.size(), 6u);
}

TEST(OnnxRoles, AFileWithWeightsOfItsOwnIsNotStripped) {
  std::vector<float> own(24 * 8, 0.5f);
  ModelBuilder model = Stripped().Floats("own", own, {8, 24});
  model.Node("MatMul", {"d", "own"}, {"z"}).Output("z");
  EXPECT_THAT(WeightsOf(model), IsEmpty());
  // What is next to nothing beside them may have been kept: positions.
  ModelBuilder kept =
      Stripped().Floats("own", {1, 2, 3, 4, 5, 6, 7, 8}, {1, 8});
  kept.Ints("zero", {0}).Node("Cast", {"ids"}, {"i"}, {{"to", 7}});
  kept.Node("Gather", {"own", "i"}, {"p"}).Node("Add", {"p", "d"}, {"z"});
  EXPECT_THAT(WeightsOf(kept.Output("z")),
              ElementsAre("table", "scale", "up", "down"));
}

// Image features and a mask of static shape beside token ids.
TEST(OnnxRoles, FloatsOfStaticShapeBesideIntegersAreData) {
  std::vector<float> own(8 * 8, 0.5f);
  EXPECT_THAT(WeightsOf(ModelBuilder()
                            .Input("ids", kI64, {2, 4})
                            .Input("image_features", kF32, {2, 4, 8})
                            .Input("memory", kF32, {6, 8})
                            .Input("bias", kF32, {8})
                            .Floats("table", own, {8, 8})
                            .Floats("w", own, {8, 8})
                            .Node("Gather", {"table", "ids"}, {"e"})
                            .Node("Add", {"e", "image_features"}, {"x"})
                            .Node("MatMul", {"x", "w"}, {"q"})
                            .Node("Transpose", {"memory"}, {"k"})
                            .Node("MatMul", {"q", "k"}, {"s"})
                            .Node("MatMul", {"s", "memory"}, {"o"})
                            .Node("Add", {"o", "bias"}, {"y"})
                            .Output("y")),
              IsEmpty());
}

TEST(OnnxRoles, KeysAndValuesAreData) {
  std::vector<int64_t> swap = {0, 1, 3, 2};
  EXPECT_THAT(WeightsOf(ModelBuilder()
                            .Input("q", kF32, {1, 2, 4, 8})
                            .Input("k", kF32, {1, 2, 4, 8})
                            .Input("v", kF32, {1, 2, 4, 8})
                            .Input("mask", kBool, {1, 1, 1, 4})
                            .Floats("low", {-1e9f}, {})
                            .Node("Transpose", {"k"}, {"t"}, {{"perm", swap}})
                            .Node("MatMul", {"q", "t"}, {"s"})
                            .Node("Where", {"mask", "s", "low"}, {"m"})
                            .Node("Softmax", {"m"}, {"p"})
                            .Node("MatMul", {"p", "v"}, {"y"})
                            .Output("y")),
              IsEmpty());
}

// A cache is joined with what is computed, so it is no operand by itself.
TEST(OnnxRoles, ACacheOfAStrippedExportIsData) {
  ModelBuilder model = Stripped().Input("past", kF32, {2, 3, 8});
  model.Node("Concat", {"past", "d"}, {"keys"}, {{"axis", 1}})
      .Node("Transpose", {"keys"}, {"t"},
            {{"perm", std::vector<int64_t>{0, 2, 1}}})
      .Node("MatMul", {"d", "t"}, {"z"})
      .Output("z");
  EXPECT_THAT(WeightsOf(model), ElementsAre("table", "scale", "up", "down"));
}

TEST(OnnxRoles, ConvolutionsAndExpertsHaveWeightsToo) {
  ModelBuilder model(18);
  model.Input("pixels", kF32, {"batch", 3, 8, 8})
      .Input("kernel", kF32, {4, 3, 2, 2})
      .Input("experts", kF32, {2, 7, 5})
      .Ints("zero", {0})
      .Ints("one", {1})
      .Node("Conv", {"pixels", "kernel"}, {"x"})
      .Node("Slice", {"experts", "zero", "one", "zero"}, {"first"})
      .Node("Squeeze", {"first", "zero"}, {"w"})
      .Node("MatMul", {"x", "w"}, {"y"})
      .Output("y");
  EXPECT_THAT(WeightsOf(model, {.dims = {{"batch", 2}}}),
              ElementsAre("kernel", "experts"));
}

TEST(OnnxRoles, WeightsAreFoundThroughFunctions) {
  ModelBuilder body;
  body.Input("x").Input("w").Output("y").Node("MatMul", {"x", "w"}, {"y"});
  ModelBuilder model;
  model.Input("x", kF32, {"batch", 8}).Input("w", kF32, {8, 4});
  model.Function("Linear", body);
  model.Call("Linear", {"x", "w"}, {"y"}).Output("y");
  EXPECT_THAT(WeightsOf(model, {.dims = {{"batch", 2}}}), ElementsAre("w"));
}

// Nothing tells which is which where all are floats of static shape, unless
// there are many matrices.
TEST(OnnxRoles, AMatmulOfTwoInputsIsOneOfData) {
  EXPECT_THAT(WeightsOf(ModelBuilder()
                            .Input("a", kF32, {4, 8})
                            .Input("b", kF32, {8, 4})
                            .Node("MatMul", {"a", "b"}, {"y"})
                            .Output("y")),
              IsEmpty());
  EXPECT_THAT(WeightsOf(ModelBuilder()
                            .Input("x", kF32, {4, 8})
                            .Input("gate", kF32, {8, 8})
                            .Input("up", kF32, {8, 8})
                            .Input("down", kF32, {8, 8})
                            .Node("MatMul", {"x", "gate"}, {"g"})
                            .Node("MatMul", {"x", "up"}, {"u"})
                            .Node("Mul", {"g", "u"}, {"m"})
                            .Node("MatMul", {"m", "down"}, {"y"})
                            .Output("y")),
              ElementsAre("gate", "up", "down"));
}

TEST(OnnxRoles, AnUnusedInputIsStillOne) {
  ModelBuilder model = Stripped()
                           .Input("floats", kF32, {3})
                           .Input("ints", kI64, {3})
                           .Input("matrix", kF32, {3, 3});
  Program program = ASYRA_VALUE(model.Import());
  EXPECT_EQ(program.inputs.size(), 9u);
  EXPECT_THAT(WeightsOf(program), ElementsAre("table", "scale", "up", "down"));
}

TEST(OnnxRoles, PatternsHaveTheLastWord) {
  EXPECT_THAT(WeightsOf(Stripped(), {.data = "up|down"}),
              ElementsAre("table", "scale"));
  EXPECT_THAT(WeightsOf(Stripped(), {.weights = "mas."}),
              ElementsAre("table", "scale", "up", "down", "mask"));
  EXPECT_THAT(WeightsOf(Stripped(), {.data = ".*", .weights = ""}), IsEmpty());
}

TEST(OnnxRoles, PatternsMustMatch) {
  auto error = [](const ImportOptions& options) {
    auto program = Stripped().Import(options);
    return program.ok() ? "" : std::string(MessageOf(program.status()));
  };
  EXPECT_THAT(error({.data = "embed.*"}),
              HasSubstr("data 'embed.*' matches no input, there are ids, "
                        "table, scale, up, ..."));
  EXPECT_THAT(error({.weights = "u"}), HasSubstr("weights 'u' matches no"));
  EXPECT_THAT(error({.weights = "u("}), HasSubstr("is no regular expression"));
  EXPECT_THAT(error({.data = "u.*", .weights = ".*p"}),
              HasSubstr("input up matches both data 'u.*' and weights"));
}

}  // namespace
}  // namespace asyra
