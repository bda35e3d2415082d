// Models that cannot be imported, and the roles and names of those that can.
#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "ir/weights/weight_store.h"
#include "tests/frontends/model_builder.h"

namespace asyra {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ModelBuilder Negate(const std::vector<ModelBuilder::Dim>& dims) {
  return ModelBuilder()
      .Input("x", kF32, dims)
      .Node("Neg", {"x"}, {"y"})
      .Output("y");
}

TEST(OnnxDims, BindsByName) {
  auto program = Negate({"batch", 3}).Import({{"batch", 5}});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->type(program->outputs[0].value).shape(), (Shape{5, 3}));
}

TEST(OnnxDims, TheirNamesAreKept) {
  std::string path = (ModelBuilder::TestFolder() / "named.onnx").string();
  ModelBuilder model = Negate({"batch", 3, "time"});
  model.Input("mask", kF32, {2, 3});
  std::ofstream(path, std::ios::binary) << model.model.SerializeAsString();
  DimNames names;
  auto program =
      ImportOnnx(path, {.dims = {{"batch", 5}, {"time", 4}}}, &names);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(names, (DimNames{{"x", {"batch", "", "time"}}}));
  EXPECT_EQ(DimText(names, "x", 2), "dim 2 \"time\"");
  EXPECT_EQ(DimText(names, "x", 1), "dim 1");
  EXPECT_EQ(DimText(names, "x", 3), "dim 3");
  EXPECT_EQ(DimText(names, "mask", 0), "dim 0");
  EXPECT_EQ(DimText({{"x", {"a\n\"b"}}}, "x", 0), "dim 0 \"a\\n\\\"b\"");
}

TEST(OnnxDims, NamesWhatIsNotBound) {
  EXPECT_THAT(
      Negate({"batch", 3}).ImportError(),
      HasSubstr("dim batch of input x is not bound: give dims batch=N"));
  EXPECT_THAT(Negate({"batch", "seq"}).ImportError(),
              AllOf(HasSubstr("batch of input x, seq of input x"),
                    HasSubstr("give dims batch=N,seq=N")));
}

TEST(OnnxDims, RefusesUnknownNamesAndBadSizes) {
  EXPECT_THAT(Negate({"batch", 3}).ImportError({{"batch", 2}, {"seq", 4}}),
              HasSubstr("no input has a dim seq; there are batch"));
  EXPECT_THAT(Negate({2, 3}).ImportError({{"batch", 2}}),
              HasSubstr("no input has a dim batch; all dims of this model are "
                        "static"));
  EXPECT_THAT(Negate({"batch"}).ImportError({{"batch", -1}}),
              HasSubstr("dim batch is -1, it should be at least 0"));
  EXPECT_EQ(Negate({"batch"}).ImportError({{"batch", 0}}), "");
}

TEST(OnnxDims, ExpressionsFollowFromOthers) {
  ModelBuilder model = Negate({"batch", "past + 1", "2*batch"});
  model.Input("p", kF32, {"past", "past + new", "batch-size"});
  auto shapes = [&](const std::map<std::string, int64_t>& dims) {
    Program program = ASYRA_VALUE(model.Import(dims));
    return std::vector<Shape>{program.type(program.inputs[0].value).shape(),
                              program.type(program.inputs[1].value).shape()};
  };
  std::map<std::string, int64_t> dims = {
      {"batch", 3}, {"past", 0}, {"new", 5}, {"batch-size", 7}};
  EXPECT_THAT(shapes(dims),
              testing::ElementsAre(Shape{3, 1, 6}, Shape{0, 5, 7}));
  dims["past + 1"] = 1;  // as it is
  EXPECT_THAT(shapes(dims),
              testing::ElementsAre(Shape{3, 1, 6}, Shape{0, 5, 7}));
  dims["past + 1"] = 70;
  EXPECT_THAT(model.ImportError(dims),
              HasSubstr("dim past + 1 of input x is 1 with past=0, it is given "
                        "as 70"));
  // A hyphen is part of a name where its sides are no dimensions.
  EXPECT_THAT(Negate({"batch-size"}).ImportError(),
              HasSubstr("give dims batch-size=N"));
}

TEST(OnnxDims, TheHintAsksForWhatIsNeededAndCanBePasted) {
  ModelBuilder model = Negate({"batch", "past + 1"});
  model.Input("p", kF32, {"past", "past + new", "new size"});
  EXPECT_THAT(
      std::string(
          MessageOf(model.Import(ImportOptions{.says_flags = true}).status())),
      HasSubstr("batch of input x, new of input p, new size of input p, past "
                "of input p: give --dim batch=N --dim new=N --dim 'new "
                "size=N' --dim past=N"));
  // Nothing says that it is more than a name.
  EXPECT_THAT(Negate({"old + 1"}).ImportError(),
              HasSubstr("give dims old + 1=N"));
  EXPECT_EQ(Negate({"old + 1"}).ImportError({{"old", 4}}), "");
  EXPECT_EQ(Negate({"old + 1"}).ImportError({{"old + 1", 4}}), "");
  EXPECT_THAT(Negate({"old - 5"}).ImportError({{"old", 4}}),
              HasSubstr("dim old - 5 of input x is -1 with old=4"));
}

TEST(OnnxDims, ShapesByNameAreOfInputs) {
  ModelBuilder model = Negate({"batch", "past + 1"});
  model.Input("p", kF32, {"past"});
  auto error = [&](const std::vector<std::pair<std::string, Shape>>& shapes) {
    return std::string(MessageOf(
        model.Import(ImportOptions{.shapes = shapes, .named_shapes = true})
            .status()));
  };
  EXPECT_EQ(error({{"x", {2, 4}}, {"p", {3}}}), "");
  EXPECT_THAT(error({{"z", {2, 4}}}),
              HasSubstr("no input is called z, there are x, p"));
  EXPECT_THAT(error({{"x", {2, 5}}, {"p", {3}}}),
              HasSubstr("dim past + 1 of input x is 4 with past=3, it is given "
                        "as 5"));
}

TEST(OnnxDims, ADimWithoutANameIsCalledByItsPlace) {
  ModelBuilder model = Negate({2});
  model.graph()
      .mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->add_dim();
  EXPECT_THAT(model.ImportError(), HasSubstr("dim x.1 of input x"));
  EXPECT_EQ(model.ImportError({{"x.1", 4}}), "");
}

TEST(OnnxDims, RecordedShapesBindWhatIsLeftOpen) {
  ModelBuilder model = ModelBuilder()
                           .Input("x:0", kF32, {"batch", "seq"})
                           .Input("y", kF32, {"batch", 2})
                           .Node("MatMul", {"x:0", "y"}, {"z"})
                           .Output("z");
  auto shape = [&](const ImportOptions& options) {
    Program program = ASYRA_VALUE(model.Import(options));
    return program.type(program.inputs[0].value).shape();
  };
  EXPECT_EQ(shape({.shapes = {{"y", {3, 2}}, {"x_0", {3, 3}}}}), Shape({3, 3}));
  EXPECT_EQ(shape({.shapes = {{"p", {3, 3}}, {"q", {3, 2}}}}), Shape({3, 3}));
  EXPECT_EQ(
      shape({.dims = {{"batch", 5}, {"seq", 5}}, .shapes = {{"x_0", {3, 3}}}}),
      Shape({5, 5}));
  auto error = model.Import(ImportOptions{.shapes = {{"y", {3, 2}}}});
  EXPECT_THAT(std::string(MessageOf(error.status())),
              HasSubstr("dim seq of input x:0 is not bound: give dims seq=N"));
}

TEST(OnnxDims, AnInputMustBeATensorOfKnownRank) {
  ModelBuilder model = Negate({4});
  auto* type = model.graph().mutable_input(0)->mutable_type();
  type->mutable_tensor_type()->clear_shape();
  EXPECT_THAT(model.ImportError(),
              HasSubstr("input x: it is a tensor of unknown rank, it should be "
                        "a tensor of known rank"));
  type->mutable_sequence_type();
  EXPECT_THAT(model.ImportError(), HasSubstr("input x: it is a sequence, it"));
  type->mutable_optional_type();
  EXPECT_THAT(model.ImportError(),
              HasSubstr("input x: it is an optional value, it"));
}

TEST(OnnxDims, OutputsMustAgree) {
  auto model = [](const ModelBuilder::Dim& dim) {
    return ModelBuilder()
        .Input("x", kF32, {"batch", 3})
        .Node("Transpose", {"x"}, {"y"})
        .Output("y", kF32, {3, dim});
  };
  EXPECT_EQ(model("batch").ImportError({{"batch", 2}}), "");
  EXPECT_EQ(model("something_else").ImportError({{"batch", 2}}), "");
  EXPECT_THAT(model(7).ImportError({{"batch", 2}}),
              HasSubstr("output y: dim 1 is declared 7, the graph computes 2"));
}

TEST(OnnxGraph, ListsAllUnknownOps) {
  ModelBuilder model;
  model.Input("x", kF32, {4})
      .Node("Det", {"x"}, {"a"})
      .Node("Det", {"a"}, {"b"})
      .Node("Frob", {"b"}, {"y"})
      .Node("Unused", {"b"}, {"c"})
      .Output("y");
  model.graph().mutable_node(2)->set_domain("my.domain");
  EXPECT_THAT(
      model.ImportError(),
      AllOf(HasSubstr("Det (opset 18) at node 'node_a' and 1 more"),
            HasSubstr("my.domain:Frob (not imported by the model) at node "
                      "'node_y'"),
            testing::Not(HasSubstr("Unused"))));
}

TEST(OnnxGraph, ANodeWithoutANameIsCalledByItsOutput) {
  ModelBuilder model = Negate({4}).Node("Det", {"x"}, {"d"}).Output("d");
  model.last().clear_name();
  EXPECT_THAT(model.ImportError(), HasSubstr("Det (opset 18) at node 'd'"));
}

TEST(OnnxGraph, RefusesBrokenGraphs) {
  EXPECT_THAT(ModelBuilder()
                  .Input("x", kF32, {4})
                  .Node("Add", {"x", "b"}, {"a"})
                  .Node("Neg", {"a"}, {"b"})
                  .Output("b")
                  .ImportError(),
              HasSubstr("Add node 'node_a' needs its own result"));
  EXPECT_THAT(ModelBuilder()
                  .Input("x", kF32, {4})
                  .Node("Add", {"x", "nowhere"}, {"y"})
                  .Output("y")
                  .ImportError(),
              HasSubstr("Add node 'node_y' reads 'nowhere', which nothing "
                        "defines"));
  EXPECT_THAT(Negate({4}).Node("Neg", {"x"}, {"y"}).ImportError(),
              HasSubstr("'y' is defined twice"));
  EXPECT_THAT(Negate({4}).Output("z").ImportError(),
              HasSubstr("the list of outputs reads 'z'"));
  EXPECT_THAT(Negate({4}).Input("x", kF32, {4}).ImportError(),
              HasSubstr("two inputs are called 'x'"));
}

TEST(OnnxGraph, AcceptsNodesInAnyOrder) {
  EXPECT_EQ(ModelBuilder()
                .Input("x", kF32, {4})
                .Node("Neg", {"a"}, {"y"})
                .Node("Exp", {"x"}, {"a"})
                .Output("y")
                .ImportError(),
            "");
}

TEST(OnnxGraph, RefusesOpsetsItDoesNotKnow) {
  EXPECT_THAT(ModelBuilder(11).ImportError(),
              HasSubstr("opset 11 is not between 13 and 26"));
  EXPECT_THAT(ModelBuilder(99).ImportError(), HasSubstr("opset 99"));
  // Attention came with opset 23.
  EXPECT_THAT(ModelBuilder(18)
                  .Input("q", kF32, {1, 2, 4, 8})
                  .Node("Attention", {"q", "q", "q"}, {"y"})
                  .Output("y")
                  .ImportError(),
              HasSubstr("Attention (opset 18)"));
}

TEST(OnnxGraph, ErrorsNameTheNode) {
  auto model = [](const std::string& op, int k) {
    return ModelBuilder()
        .Input("a", kF32, {2, 3})
        .Input("b", kF32, {k, 5})
        .Node(op, {"a", "b"}, {"y"})
        .Output("y")
        .ImportError();
  };
  EXPECT_THAT(model("MatMul", 4),
              HasSubstr("MatMul node 'node_y': matmul: contracting sizes "
                        "differ: lhs dim 1 is 3, rhs dim 0 is 4"));
  EXPECT_THAT(model("Add", 4), HasSubstr("Add node 'node_y': add: operand 1"));
}

TEST(OnnxGraph, ErrorsAreOneLineWhateverNamesThereAre) {
  EXPECT_THAT(ModelBuilder()
                  .Input("x", kF32, {2})
                  .Node("Frob", {"x"}, {"a\nb\x7f"})
                  .Output("a\nb\x7f")
                  .ImportError(),
              HasSubstr("at node 'node_a\\x0ab\\x7f'"));
}

TEST(OnnxGraph, RefusesWrongInputsAndAttributes) {
  auto error = [](const std::vector<std::string>& inputs,
                  const std::string& attr, ModelBuilder::Attr value) {
    return ModelBuilder()
        .Input("x", kF32, {2, 3})
        .Node("Softmax", inputs, {"y"}, {{attr, value}})
        .Output("y")
        .ImportError();
  };
  EXPECT_EQ(error({"x"}, "axis", 0), "");
  EXPECT_THAT(error({"x"}, "axis", 5),
              HasSubstr("axis 5 of a value of rank 2"));
  EXPECT_THAT(error({"x"}, "axis", "last"),
              HasSubstr("attribute axis has type STRING, it should be INT"));
  EXPECT_THAT(error({"x"}, "temperature", 2.f),
              HasSubstr("attribute temperature is not supported"));
  EXPECT_THAT(error({"x", "x"}, "axis", 0),
              HasSubstr("it has 2 inputs, Softmax takes 1 to 1"));
  EXPECT_THAT(error({""}, "axis", 0), HasSubstr("input 0 is left out"));
  EXPECT_THAT(ModelBuilder()
                  .Input("x", kF32, {2, 3})
                  .Node("Concat", {"x", "x"}, {"y"})
                  .Output("y")
                  .ImportError(),
              HasSubstr("Concat node 'node_y': attribute axis is missing"));
}

TEST(OnnxGraph, ShapesMustNotDependOnData) {
  EXPECT_THAT(ModelBuilder()
                  .Input("x", kF32, {4})
                  .Input("shape", kI64, {2})
                  .Node("Reshape", {"x", "shape"}, {"y"})
                  .Output("y")
                  .ImportError(),
              HasSubstr("input 1 (shape) depends on the model's data"));
}

TEST(OnnxGraph, UnusedWeightsAreLeftOut) {
  Program program = ASYRA_VALUE(Negate({4})
                                    .Floats("w", {1, 2}, {2})
                                    .Node("Neg", {"w"}, {"unused"})
                                    .Import());
  EXPECT_EQ(program.inputs.size(), 1u);
  EXPECT_EQ(program.weights->size(), 0u);
}

TEST(OnnxNames, OutputsKeepTheirsAndOthersAreMadeReadable) {
  Program program =
      ASYRA_VALUE(ModelBuilder()
                      .Input("my input:0", kF32, {2, 2})
                      .Node("Xor", {"a", "a"}, {"y/out"})
                      .Node("Less", {"my input:0", "my input:0"}, {"a"})
                      .Output("y/out")
                      .Import());
  EXPECT_EQ(program.value_name(program.inputs[0].value), "my_input_0");
  EXPECT_EQ(program.output_name(program.outputs[0]), "y_out");
}

// An input that is returned, and a value that is returned twice.
TEST(OnnxNames, OutputsThatShareAValueHaveEachTheirOwn) {
  Program program = ASYRA_VALUE(ModelBuilder()
                                    .Input("x", kF32, {2})
                                    .Node("Identity", {"x"}, {"same"})
                                    .Node("Neg", {"x"}, {"1"})
                                    .Node("Identity", {"1"}, {"other"})
                                    .Output("same")
                                    .Output("1")
                                    .Output("other")
                                    .Import());
  std::vector<std::string> names;
  for (const Output& output : program.outputs) {
    names.push_back(program.output_name(output));
  }
  EXPECT_EQ(names, std::vector<std::string>({"same", "1", "other"}));
}

TEST(OnnxNames, TheProgramIsCalledLikeTheGraph) {
  for (auto [graph, program] :
       {std::pair("main graph", "main_graph"), std::pair("", "main"),
        std::pair("7b", "_7b"), std::pair(".x", "_.x")}) {
    ModelBuilder model = Negate({4});
    model.graph().set_name(graph);
    EXPECT_EQ(ASYRA_VALUE(model.Import()).name, program);
  }
}

}  // namespace
}  // namespace asyra
