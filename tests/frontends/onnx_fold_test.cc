// What is known while importing, and what it becomes in the program.
#include "frontends/onnx/known_form.h"
#include "frontends/onnx/value.h"
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "ir/weights/weight_store.h"
#include "tests/frontends/model_builder.h"

namespace asyra {
namespace {

using onnx_import::AsLine;
using onnx_import::AsTriangle;
using OnnxValue = onnx_import::Value;
using testing::ElementsAre;
using Names = std::vector<std::string>;

Names OpNames(const Program& program) {
  Names names;
  for (const Op& op : program.ops) names.emplace_back(op.def->name);
  return names;
}

// mask[i, j] = j <= i, for the sequence length of x[seq].
ModelBuilder CausalMask() {
  return ModelBuilder()
      .Input("x", kF32, {"seq"})
      .Ints("zero", {0}, {})
      .Ints("one", {1}, {})
      .Ints("axis0", {0})
      .Ints("axis1", {1})
      .Node("Shape", {"x"}, {"shape"})
      .Node("Squeeze", {"shape"}, {"seq"})
      .Node("Range", {"zero", "seq", "one"}, {"index"})
      .Node("Unsqueeze", {"index", "axis1"}, {"rows"})
      .Node("Unsqueeze", {"index", "axis0"}, {"columns"})
      .Node("LessOrEqual", {"columns", "rows"}, {"mask"})
      .Node("Where", {"mask", "x", "low"}, {"y"})
      .Floats("low", {-1}, {})
      .Output("y");
}

TEST(OnnxFold, ACausalMaskIsAFewOpsAtAnySize) {
  for (int64_t seq : {8, 64, 8192, 65536}) {
    SCOPED_TRACE(seq);
    Program program = ASYRA_VALUE(CausalMask().Import({{"seq", seq}}));
    EXPECT_THAT(OpNames(program), ElementsAre("iota", "iota", "less_equal",
                                              "constant", "select"));
  }
}

TEST(OnnxFold, IndicesTooManyToComputeAreOps) {
  Program program = ASYRA_VALUE(CausalMask().Import({{"seq", 1 << 20}}));
  EXPECT_THAT(OpNames(program),
              ElementsAre("iota", "reshape", "reshape", "less_equal",
                          "constant", "select"));
}

TEST(OnnxFold, TheMaskIsRight) {
  Program program = ASYRA_VALUE(CausalMask().Import({{"seq", 4}}));
  Tensor x = Tensor::FromDoubles(DType::kF32, {4}, {1, 2, 3, 4});
  Tensor y = ASYRA_VALUE(Interpret(program, {x}))[0];
  EXPECT_THAT(y.ToDoubles(), ElementsAre(1, -1, -1, -1, 1, 2, -1, -1, 1, 2, 3,
                                         -1, 1, 2, 3, 4));
}

TEST(OnnxFold, BoolDataOfATriangleIsRecognized) {
  ModelBuilder model;
  model.Input("x", kF32, {32, 32})
      .Floats("low", {-1}, {})
      .Node("Where", {"mask", "x", "low"}, {"y"})
      .Output("y");
  onnx::TensorProto* mask = model.Initializer("mask", kBool, {32, 32});
  for (int i = 0; i < 32 * 32; ++i) mask->add_int32_data(i % 32 <= i / 32);
  Program program = ASYRA_VALUE(model.Import());
  EXPECT_THAT(OpNames(program),
              ElementsAre("iota", "iota", "less_equal", "constant", "select"));
  Tensor x = Tensor::FromDoubles(DType::kF32, {32, 32},
                                 std::vector<double>(32 * 32, 1));
  Tensor y = ASYRA_VALUE(Interpret(program, {x}))[0];
  for (int i = 0; i < 32 * 32; ++i) {
    ASSERT_EQ(y.Get(i), i % 32 <= i / 32 ? 1 : -1) << i;
  }
}

TEST(OnnxFold, ShapeArithmeticLeavesNoOps) {
  Program program =
      ASYRA_VALUE(ModelBuilder()
                      .Input("x", kF32, {"b", "s", 12})
                      .Ints("heads", {3, 4})
                      .Node("Shape", {"x"}, {"bs"}, {{"start", 0}, {"end", 2}})
                      .Node("Concat", {"bs", "heads"}, {"to"}, {{"axis", 0}})
                      .Node("Reshape", {"x", "to"}, {"y"})
                      .Output("y")
                      .Import({{"b", 2}, {"s", 5}}));
  EXPECT_THAT(OpNames(program), ElementsAre("reshape"));
  EXPECT_EQ(program.type(program.outputs[0].value).shape(),
            (Shape{2, 5, 3, 4}));
}

TEST(OnnxFold, EqualConstantsAreOne) {
  Program program = ASYRA_VALUE(ModelBuilder()
                                    .Input("x", kF32, {4})
                                    .Floats("a", {2}, {})
                                    .Floats("b", {2}, {1})
                                    .Node("Mul", {"x", "a"}, {"c"})
                                    .Node("Add", {"c", "b"}, {"d"})
                                    .Node("Sub", {"d", "a"}, {"y"})
                                    .Output("y")
                                    .Import());
  int constants = 0;
  for (const Op& op : program.ops) constants += op.def->name == "constant";
  EXPECT_LE(constants, 2);  // of shapes [] and [1]
}

TEST(OnnxFold, ALargeConstantThatNoFormulaGivesIsAWeight) {
  std::vector<int64_t> squares;
  for (int64_t i = 0; i < 40; ++i) squares.push_back(i * i);
  Program program = ASYRA_VALUE(ModelBuilder()
                                    .Input("x", kI64, {40})
                                    .Ints("squares", squares)
                                    .Node("Add", {"x", "squares"}, {"y"})
                                    .Output("y")
                                    .Import());
  ASSERT_EQ(program.inputs.size(), 2u);
  EXPECT_EQ(program.inputs[1].role, InputRole::kWeight);
  ASSERT_NE(program.weights->Find("squares"), nullptr);
  EXPECT_EQ(program.weights->Find("squares")->ToInts(), squares);
}

TEST(OnnxFold, AKnownOutputIsComputed) {
  Program program = ASYRA_VALUE(ModelBuilder()
                                    .Input("x", kF32, {3, 5})
                                    .Node("Shape", {"x"}, {"y"})
                                    .Output("y")
                                    .Import());
  Tensor y = ASYRA_VALUE(Interpret(program, {Tensor(DType::kF32, {3, 5})}))[0];
  EXPECT_THAT(y.ToInts(), ElementsAre(3, 5));
}

TEST(OnnxValue, KeepsOnlyWhatVaries) {
  Tensor rows = Tensor::FromInts(DType::kI64, {2, 3}, {7, 7, 7, 8, 8, 8});
  OnnxValue value = OnnxValue::Known(rows);
  EXPECT_EQ(value.data().shape(), (Shape{2, 1}));
  EXPECT_EQ(value.shape(), (Shape{2, 3}));
  EXPECT_TRUE(SameBytes(value.Expanded(), rows));
  EXPECT_FALSE(value.is_splat());
  EXPECT_TRUE(OnnxValue::Known(Tensor(DType::kF32, {4, 4})).IsSplatOf(0));
}

TEST(KnownForm, Lines) {
  auto form = [](std::vector<int64_t> values, Shape shape) {
    return AsLine(Tensor::FromInts(DType::kI64, shape, values));
  };
  auto line = form({5, 3, 1, -1}, {1, 4, 1});
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->dim, 1);
  EXPECT_EQ(line->start, 5);
  EXPECT_EQ(line->step, -2);
  EXPECT_FALSE(form({0, 1, 2, 4}, {4}).has_value());
  EXPECT_FALSE(form({0, 1, 2, 3}, {2, 2}).has_value());
  EXPECT_FALSE(form({0, 1, 2}, {3}).has_value());
  EXPECT_FALSE(form({0, 1, 2, INT64_MAX}, {4}).has_value());
  EXPECT_FALSE(AsLine(Tensor::FromDoubles(DType::kF32, {4}, {0, .5, 1, 1.5}))
                   .has_value());
}

Tensor CausalOf(int64_t rows, int64_t columns) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < rows * columns; ++i) {
    values.push_back(i % columns <= i / columns);
  }
  return Tensor::FromInts(DType::kBool, {rows, columns}, values);
}

TEST(KnownForm, Triangles) {
  // The definition, for all diagonals of all small matrices.
  for (int64_t rows = 2; rows <= 4; ++rows) {
    for (int64_t columns = 2; columns <= 4; ++columns) {
      for (int64_t k = -rows - 1; k <= columns + 1; ++k) {
        std::vector<int64_t> values;
        for (int64_t i = 0; i < rows * columns; ++i) {
          values.push_back(i % columns <= i / columns + k);
        }
        auto form = AsTriangle(
            Tensor::FromInts(DType::kBool, {rows, 1, columns}, values));
        if (!form.has_value()) continue;
        EXPECT_EQ(form->row_dim, 0);
        EXPECT_EQ(form->column_dim, 2);
        for (int64_t i = 0; i < rows * columns; ++i) {
          ASSERT_EQ(values[i] != 0,
                    i % columns <= i / columns + form->diagonal);
        }
      }
      EXPECT_TRUE(AsTriangle(CausalOf(rows, columns)).has_value());
    }
  }
  EXPECT_FALSE(AsTriangle(Tensor::FromInts(DType::kBool, {2, 2}, {1, 0, 0, 1}))
                   .has_value());
  EXPECT_FALSE(AsTriangle(Tensor::FromInts(DType::kBool, {2, 2}, {1, 1, 1, 0}))
                   .has_value());
}

}  // namespace
}  // namespace asyra
