// Functions of a model: written out where they are called.
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "tests/frontends/model_builder.h"

namespace asyra {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// x = 1, 2, 3 goes in.
ModelBuilder WithX() { return ModelBuilder().Input("x", kF32, {3}); }

std::vector<double> RunModel(const ModelBuilder& model) {
  Program program = ASYRA_VALUE(model.Import());
  Tensor x = Tensor::FromDoubles(DType::kF32, {3}, {1, 2, 3});
  return ASYRA_VALUE(Interpret(program, {x}))[0].ToDoubles();
}

// b = 10 a
ModelBuilder TenTimes() {
  return ModelBuilder()
      .Input("a")
      .Node("Constant", {}, {"ten"}, {{"value_float", 10.f}})
      .Node("Mul", {"a", "ten"}, {"b"})
      .Output("b");
}

TEST(OnnxFunction, NamesInsideAreItsOwn) {
  // The model has an "a", a "b" and a "ten" of its own.
  ModelBuilder model = WithX()
                           .Node("Neg", {"x"}, {"a"})
                           .Call("TenTimes", {"a"}, {"ten"})
                           .Call("TenTimes", {"ten"}, {"b"})
                           .Node("Add", {"b", "a"}, {"y"})
                           .Output("y");
  model.Function("TenTimes", TenTimes());
  EXPECT_THAT(RunModel(model), ElementsAre(-101, -202, -303));
}

TEST(OnnxFunction, MayCallOthers) {
  ModelBuilder model = WithX().Call("Hundred", {"x"}, {"y"}).Output("y");
  model.Function("Hundred", ModelBuilder()
                                .Input("a")
                                .Call("TenTimes", {"a"}, {"b"})
                                .Call("TenTimes", {"b"}, {"a2"})
                                .Output("a2"));
  model.Function("TenTimes", TenTimes());
  EXPECT_THAT(RunModel(model), ElementsAre(100, 200, 300));
}

// A function with an attribute for the axis of a cumulative sum's order.
ModelBuilder WithReverse(
    const std::vector<std::pair<std::string, ModelBuilder::Attr>>& attrs) {
  ModelBuilder model = WithX().Call("Sum", {"x"}, {"y"}, attrs).Output("y");
  ModelBuilder body = ModelBuilder().Input("a");
  body.Node("Constant", {}, {"axis"}, {{"value_int", 0}})
      .Node("CumSum", {"a", "axis"}, {"b"})
      .Refer("reverse", onnx::AttributeProto::INT, "backwards")
      .Output("b");
  onnx::FunctionProto& function = model.Function("Sum", body);
  onnx::AttributeProto* attribute = function.add_attribute_proto();
  attribute->set_name("backwards");
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(1);
  return model;
}

TEST(OnnxFunction, AttributesAreTheCallersOrTheDefault) {
  EXPECT_THAT(RunModel(WithReverse({})), ElementsAre(6, 5, 3));
  EXPECT_THAT(RunModel(WithReverse({{"backwards", 0}})), ElementsAre(1, 3, 6));
  EXPECT_THAT(WithReverse({{"axis", 1}}).ImportError(),
              HasSubstr("Sum node 'node_y': function f:Sum has no attribute "
                        "axis"));
  EXPECT_THAT(WithReverse({{"backwards", 0.5f}}).ImportError(),
              HasSubstr("CumSum node 'node_b': attribute reverse has type "
                        "FLOAT, it should be INT"));
}

TEST(OnnxFunction, AnAttributeWithoutDefaultMayBeLeftOut) {
  ModelBuilder model = WithReverse({});
  onnx::FunctionProto& function = *model.model.mutable_functions(0);
  function.clear_attribute_proto();
  function.add_attribute("backwards");
  EXPECT_THAT(RunModel(model), ElementsAre(1, 3, 6));
}

TEST(OnnxFunction, AttributesPassThroughCallsAndSubgraphs) {
  // Outer(backwards) { If (true) { Inner(backwards) } }
  ModelBuilder model =
      WithX().Call("Outer", {"x"}, {"y"}, {{"direction", 1}}).Output("y");
  ModelBuilder branch;
  branch.Call("Inner", {"a"}, {"c"})
      .Refer("backwards", onnx::AttributeProto::INT, "direction")
      .Output("c");
  ModelBuilder outer = ModelBuilder().Input("a");
  outer.Node("Constant", {}, {"one"}, {{"value_int", 1}})
      .Node("Cast", {"one"}, {"yes"}, {{"to", kBool}})
      .Node("If", {"yes"}, {"b"},
            {{"then_branch", branch.graph()}, {"else_branch", branch.graph()}})
      .Output("b");
  model.Function("Outer", outer).add_attribute("direction");
  ModelBuilder inner = ModelBuilder().Input("a");
  inner.Node("Constant", {}, {"axis"}, {{"value_int", 0}})
      .Node("CumSum", {"a", "axis"}, {"b"})
      .Refer("reverse", onnx::AttributeProto::INT, "backwards")
      .Output("b");
  model.Function("Inner", inner).add_attribute("backwards");
  EXPECT_THAT(RunModel(model), ElementsAre(6, 5, 3));
}

TEST(OnnxFunction, HasOpsetsOfItsOwn) {
  // ReduceMean takes its axes from an attribute up to opset 17.
  ModelBuilder model = WithX().Call("Mean", {"x"}, {"y"}).Output("y");
  model.Function(
      "Mean",
      ModelBuilder()
          .Input("a")
          .Node("ReduceMean", {"a"}, {"b"}, {{"axes", std::vector<int64_t>{0}}})
          .Output("b"),
      13);
  EXPECT_THAT(RunModel(model), ElementsAre(2));
  ModelBuilder old = model;
  old.model.mutable_functions(0)->mutable_opset_import(0)->set_version(9);
  EXPECT_THAT(old.ImportError(),
              HasSubstr("function f:Mean: opset 9 is not between"));
}

TEST(OnnxFunction, IsChosenByOverloadAndBeforeAnOpOfItsName) {
  ModelBuilder model = WithX().Call("Step", {"x"}, {"y"}).Output("y");
  model.last().set_overload("minus");
  model.Function("Step", TenTimes());
  model
      .Function("Step",
                ModelBuilder().Input("a").Node("Neg", {"a"}, {"b"}).Output("b"))
      .set_overload("minus");
  EXPECT_THAT(RunModel(model), ElementsAre(-1, -2, -3));
  ModelBuilder relu = WithX().Node("Relu", {"x"}, {"y"}).Output("y");
  relu.Function("Relu", TenTimes()).set_domain("");
  EXPECT_THAT(RunModel(relu), ElementsAre(10, 20, 30));
}

TEST(OnnxFunction, InputsMayBeLeftOut) {
  auto model = [](const std::vector<std::string>& inputs) {
    ModelBuilder result = WithX().Call("Limit", inputs, {"y"}).Output("y");
    result.Function("Limit", ModelBuilder()
                                 .Input("a")
                                 .Input("low")
                                 .Input("high")
                                 .Node("Clip", {"a", "low", "high"}, {"b"})
                                 .Output("b"));
    return result.Floats("two", {2}, {});
  };
  EXPECT_THAT(RunModel(model({"x"})), ElementsAre(1, 2, 3));
  EXPECT_THAT(RunModel(model({"x", "two"})), ElementsAre(2, 2, 3));
  EXPECT_THAT(RunModel(model({"x", "", "two"})), ElementsAre(1, 2, 2));
  EXPECT_THAT(model({"x", "two", "two", "two"}).ImportError(),
              HasSubstr("it has 4 inputs, function f:Limit takes 3"));
}

// As exporters write poolings whose indices are left.
TEST(OnnxFunction, OutputsThatTheCallerDoesNotReadAreNotImported) {
  auto model = [](const char* output) {
    ModelBuilder model = ModelBuilder()
                             .Input("x", kF32, {1, 1, 3})
                             .Call("Pool", {"x"}, {"y", "at"})
                             .Output(output);
    model.Function("Pool",
                   ModelBuilder()
                       .Input("a")
                       .Node("MaxPool", {"a"}, {"b", "indices"},
                             {{"kernel_shape", std::vector<int64_t>{2}}})
                       .Node("Neg", {"indices"}, {"c"})
                       .Output("b")
                       .Output("c"));
    return model;
  };
  EXPECT_EQ(model("y").ImportError(), "");
  EXPECT_THAT(model("at").ImportError(),
              HasSubstr("output 1, the indices, is not supported"));
}

TEST(OnnxFunction, MayNotCallItself) {
  ModelBuilder model = WithX().Call("A", {"x"}, {"y"}).Output("y");
  auto calls = [](const char* callee) {
    return ModelBuilder().Input("a").Call(callee, {"a"}, {"b"}).Output("b");
  };
  model.Function("A", calls("B"));
  model.Function("B", calls("A"));
  EXPECT_THAT(model.ImportError(), HasSubstr("function f:A calls itself"));
}

TEST(OnnxFunction, ThatGrowsWithoutBoundIsRefused) {
  // Each of 40 functions calls the next one twice.
  ModelBuilder model = WithX().Call("F0", {"x"}, {"y"}).Output("y");
  for (int i = 0; i < 40; ++i) {
    std::string next = fmt::format("F{}", i + 1);
    model.Function(fmt::format("F{}", i), ModelBuilder()
                                              .Input("a")
                                              .Call(next, {"a"}, {"b"})
                                              .Call(next, {"b"}, {"c"})
                                              .Output("c"));
  }
  model.Function("F40", TenTimes());
  EXPECT_THAT(model.ImportError(), HasSubstr("when they are written out"));
}

TEST(OnnxFunction, ErrorsNameTheCallAndTheFunction) {
  ModelBuilder model = WithX().Call("Bad", {"x"}, {"y"}).Output("y");
  model.Function("Bad", ModelBuilder()
                            .Input("a")
                            .Node("Add", {"a", "nowhere"}, {"b"})
                            .Output("b"));
  EXPECT_THAT(model.ImportError(),
              HasSubstr("function f:Bad: Add node 'node_b' reads 'nowhere', "
                        "which nothing defines"));
  model.model.mutable_functions(0)->mutable_node(0)->set_input(1, "a");
  EXPECT_EQ(model.ImportError(), "");
  model.Function("Bad", TenTimes());
  EXPECT_THAT(model.ImportError(),
              HasSubstr("function f:Bad is defined twice"));
}

TEST(OnnxFunction, UnknownOpsInsideAreListedWithTheOthers) {
  ModelBuilder model = WithX()
                           .Node("Det", {"x"}, {"a"})
                           .Call("F", {"a"}, {"b"})
                           .Call("F", {"b"}, {"y"})
                           .Output("y");
  model.Function("F",
                 ModelBuilder()
                     .Input("a")
                     .Node("Det", {"a"}, {"b"})
                     .Node("Frob", {"b"}, {"c"})
                     .Output("c"),
                 20);
  EXPECT_THAT(model.ImportError(),
              AllOf(HasSubstr("Det (opset 18) at node 'node_a',"),
                    HasSubstr("Det (opset 20) at node 'node_b',"),
                    HasSubstr("Frob (opset 20) at node 'node_c'")));
}

TEST(OnnxFunction, ReferencesOutsideOfOneAreRefused) {
  ModelBuilder model = WithX().Node("Softmax", {"x"}, {"y"}).Output("y");
  model.Refer("axis", onnx::AttributeProto::INT, "dim");
  EXPECT_THAT(model.ImportError(),
              HasSubstr("attribute axis refers to dim outside of a function"));
}

}  // namespace
}  // namespace asyra
