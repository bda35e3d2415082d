// If, Loop and Scan that are decided while importing, and sequences.
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "tests/frontends/model_builder.h"

namespace asyra {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

ModelBuilder WithX(const std::vector<int>& shape) {
  std::vector<ModelBuilder::Dim> dims(shape.begin(), shape.end());
  return ModelBuilder().Input("x", kF32, dims);
}

// With x = 1, 2, 3, ...
std::vector<Tensor> RunModel(const ModelBuilder& model) {
  Program program = ASYRA_VALUE(model.Import());
  Shape shape = program.type(program.inputs[0].value).shape();
  std::vector<double> count;
  for (int64_t i = 0; i < NumElements(shape); ++i) {
    count.push_back(static_cast<double>(i + 1));
  }
  std::vector<Tensor> inputs(program.inputs.size());
  inputs[0] = Tensor::FromDoubles(DType::kF32, shape, count);
  return ASYRA_VALUE(Interpret(program, inputs));
}

ModelBuilder& AddBool(ModelBuilder& model, const std::string& name,
                      bool value) {
  model.Initializer(name, kBool, {})->add_int32_data(value ? 1 : 0);
  return model;
}

onnx::GraphProto Branch(const std::string& op) {
  return ModelBuilder().Node(op, {"x"}, {"r"}).Output("r").graph();
}

ModelBuilder IfModel(bool condition) {
  ModelBuilder model = WithX({3});
  return AddBool(model, "cond", condition)
      .Node("If", {"cond"}, {"y"},
            {{"then_branch", Branch("Neg")}, {"else_branch", Branch("Relu")}})
      .Output("y");
}

TEST(OnnxIf, TakesTheBranchOfItsCondition) {
  EXPECT_THAT(RunModel(IfModel(true))[0].ToDoubles(), ElementsAre(-1, -2, -3));
  EXPECT_THAT(RunModel(IfModel(false))[0].ToDoubles(), ElementsAre(1, 2, 3));
}

TEST(OnnxIf, AConditionThatIsDataIsRefused) {
  auto model = WithX({3})
                   .Input("cond", kBool, {})
                   .Node("If", {"cond"}, {"y"},
                         {{"then_branch", Branch("Neg")},
                          {"else_branch", Branch("Relu")}});
  EXPECT_THAT(model.Output("y").ImportError(),
              HasSubstr("If node 'node_y': condition 'cond' is not constant"));
}

TEST(OnnxIf, OnlyTheTakenBranchMustBeKnown) {
  ModelBuilder model = IfModel(true);
  onnx::AttributeProto* other = model.last().mutable_attribute(1);
  other->mutable_g()->mutable_node(0)->set_op_type("Frob");
  EXPECT_EQ(model.ImportError(), "");
  model.last().mutable_attribute(0)->set_name("else_branch");
  other->set_name("then_branch");
  EXPECT_THAT(model.ImportError(),
              HasSubstr("If node 'node_y': ops that are not supported: Frob "
                        "(opset 18) at node 'node_r'"));
  // Where something else is missing anyway, it is listed at once.
  model.Node("Det", {"y"}, {"z"}).Output("z");
  EXPECT_THAT(model.ImportError(),
              AllOf(HasSubstr("Det (opset 18)"), HasSubstr("Frob (opset 18)")));
}

TEST(OnnxIf, SubgraphsReadNamesAroundThem) {
  // Nothing but the inner branch reads "a", and it has an own "b".
  onnx::GraphProto inner =
      ModelBuilder().Node("Add", {"a", "x"}, {"b"}).Output("b").graph();
  ModelBuilder outer;
  outer
      .Node("If", {"cond"}, {"c"},
            {{"then_branch", inner}, {"else_branch", inner}})
      .Output("c");
  ModelBuilder model = WithX({3});
  AddBool(model, "cond", true)
      .Node("If", {"cond"}, {"y"},
            {{"then_branch", outer.graph()}, {"else_branch", outer.graph()}})
      .Node("Neg", {"b"}, {"a"})
      .Node("Exp", {"zero"}, {"b"})
      .Floats("zero", {0}, {})
      .Output("y");
  EXPECT_THAT(RunModel(model)[0].ToDoubles(), ElementsAre(0, 1, 2));
  model.graph().mutable_node(1)->set_output(0, "not_a");
  EXPECT_THAT(model.ImportError(),
              HasSubstr("If node 'node_y' reads 'a', which nothing defines"));
}

// while (cond && i < trips) { x += x; ++count; cond = i < limit; emit x }
ModelBuilder Doubling(const std::string& trips, const std::string& condition) {
  onnx::GraphProto body = ModelBuilder()
                              .Input("i", kI64, {})
                              .Input("before", kBool, {})
                              .Input("v")
                              .Input("count")
                              .Node("Add", {"v", "v"}, {"w"})
                              .Node("Add", {"count", "one"}, {"count2"})
                              .Node("Less", {"i", "limit"}, {"after"})
                              .Node("Identity", {"w"}, {"emitted"})
                              .Output("after")
                              .Output("w")
                              .Output("count2")
                              .Output("emitted")
                              .graph();
  ModelBuilder model = WithX({2});
  AddBool(model, "yes", true);
  return AddBool(model, "no", false)
      .Ints("three", {3}, {})
      .Ints("one", {1}, {})
      .Ints("zero", {0}, {})
      .Ints("limit", {1}, {})
      .Node("Loop", {trips, condition, "x", "zero"}, {"y", "count_out", "all"},
            {{"body", body}})
      .Output("y")
      .Output("count_out")
      .Output("all");
}

TEST(OnnxLoop, RunsToItsTripCount) {
  // Without a condition at the start, the body's is ignored.
  std::vector<Tensor> results = RunModel(Doubling("three", ""));
  EXPECT_THAT(results[0].ToDoubles(), ElementsAre(8, 16));
  EXPECT_THAT(results[1].ToInts(), ElementsAre(3));
  EXPECT_EQ(results[2].shape(), (Shape{3, 2}));
  EXPECT_THAT(results[2].ToDoubles(), ElementsAre(2, 4, 4, 8, 8, 16));
}

TEST(OnnxLoop, RunsUntilItsConditionFails) {
  for (const char* trips : {"", "three"}) {
    std::vector<Tensor> results = RunModel(Doubling(trips, "yes"));
    EXPECT_THAT(results[0].ToDoubles(), ElementsAre(4, 8));
    EXPECT_THAT(results[2].ToDoubles(), ElementsAre(2, 4, 4, 8));
  }
}

TEST(OnnxLoop, MayRunNotAtAll) {
  ModelBuilder model = Doubling("zero", "yes");
  EXPECT_THAT(model.ImportError(),
              HasSubstr("output 2 collects the results of no iteration"));
  // Outputs at the end may be left out of the node, by "" or altogether.
  model.graph().mutable_output()->RemoveLast();
  model.last().set_output(2, "");
  EXPECT_EQ(model.ImportError(), "");
  model.last().mutable_output()->RemoveLast();
  EXPECT_THAT(RunModel(model)[0].ToDoubles(), ElementsAre(1, 2));
}

TEST(OnnxLoop, RefusesWhatIsNotDecided) {
  ModelBuilder model = Doubling("trips", "yes");
  model.Input("trips", kI64, {});
  EXPECT_THAT(
      model.ImportError(),
      HasSubstr("Loop node 'node_y': trip count 'trips' is not constant"));
  model = Doubling("three", "go");
  model.Input("go", kBool, {});
  EXPECT_THAT(model.ImportError(), HasSubstr("condition 'go' is not constant"));
  model = Doubling("three", "yes");
  auto* body = model.last().mutable_attribute(0)->mutable_g();
  body->mutable_node(2)->set_input(1, "limit_in");
  model.Input("limit_in", kI64, {});
  EXPECT_THAT(model.ImportError(),
              HasSubstr("condition 'after iteration 0' is not constant"));
}

TEST(OnnxLoop, ThatDoesNotEndIsRefused) {
  EXPECT_THAT(Doubling("", "").ImportError(),
              HasSubstr("it has more than 16384 iterations"));
}

TEST(OnnxLoop, TheBodyMustFitTheNode) {
  ModelBuilder model = Doubling("three", "yes");
  model.last()
      .mutable_attribute(0)
      ->mutable_g()
      ->mutable_output()
      ->RemoveLast();
  EXPECT_THAT(model.ImportError(),
              HasSubstr("subgraph body has 3 outputs, it should have 4"));
  model = Doubling("three", "yes");
  model.last().mutable_attribute(0)->mutable_g()->add_input()->set_name("k");
  EXPECT_THAT(model.ImportError(), HasSubstr("has 5 inputs, it should have 4"));
}

TEST(OnnxLoop, WeightsInsideAreReadOnce) {
  ModelBuilder body;
  body.Input("i").Input("c").Input("v").Floats("w", {1, 2}, {2});
  body.Node("Add", {"v", "w"}, {"v2"}).Output("c").Output("v2");
  Program program = ASYRA_VALUE(
      WithX({2})
          .Ints("three", {3}, {})
          .Node("Loop", {"three", "", "x"}, {"y"}, {{"body", body.graph()}})
          .Output("y")
          .Import());
  EXPECT_EQ(program.inputs.size(), 2u);
  EXPECT_EQ(program.ops.size(), 3u);
}

ModelBuilder ScanModel(
    const std::vector<std::pair<std::string, ModelBuilder::Attr>>& attrs) {
  // total += row; emit total
  ModelBuilder body;
  body.Input("total").Input("row");
  body.Node("Add", {"total", "row"}, {"sum"})
      .Node("Identity", {"sum"}, {"emitted"})
      .Output("sum")
      .Output("emitted");
  auto all = attrs;
  all.emplace_back("body", body.graph());
  all.emplace_back("num_scan_inputs", 1);
  return WithX({2, 3})
      .Floats("start", {0}, {})
      .Node("Scan", {"start", "x"}, {"last", "y"}, all)
      .Output("last")
      .Output("y");
}

TEST(OnnxScan, RunsAlongItsAxesInBothDirections) {
  using List = std::vector<int64_t>;
  std::vector<Tensor> rows = RunModel(ScanModel({}));
  EXPECT_THAT(rows[0].ToDoubles(), ElementsAre(5, 7, 9));
  EXPECT_THAT(rows[1].ToDoubles(), ElementsAre(1, 2, 3, 5, 7, 9));
  std::vector<Tensor> columns = RunModel(
      ScanModel({{"scan_input_axes", List{1}}, {"scan_output_axes", List{1}}}));
  EXPECT_THAT(columns[0].ToDoubles(), ElementsAre(6, 15));
  EXPECT_THAT(columns[1].ToDoubles(), ElementsAre(1, 3, 6, 4, 9, 15));
  std::vector<Tensor> backwards =
      RunModel(ScanModel({{"scan_input_directions", List{1}},
                          {"scan_output_directions", List{1}}}));
  EXPECT_THAT(backwards[1].ToDoubles(), ElementsAre(5, 7, 9, 4, 5, 6));
}

TEST(OnnxSequence, IsBuiltAndTakenApart) {
  auto model =
      WithX({2})
          .Ints("zero", {0}, {})
          .Ints("last", {-1}, {})
          .Node("Neg", {"x"}, {"n"})
          .Node("SequenceEmpty", {}, {"s0"})
          .Node("SequenceInsert", {"s0", "x"}, {"s1"})
          .Node("SequenceInsert", {"s1", "n", "zero"}, {"s2"})
          .Node("SequenceConstruct", {"x", "n", "x"}, {"s3"})
          .Node("SequenceErase", {"s3", "last"}, {"s4"})
          .Node("SequenceLength", {"s4"}, {"length"})
          .Node("ConcatFromSequence", {"s2"}, {"joined"}, {{"axis", 0}})
          .Node("ConcatFromSequence", {"s4"}, {"stacked"},
                {{"axis", -1}, {"new_axis", 1}})
          .Output("joined")
          .Output("stacked")
          .Output("length");
  std::vector<Tensor> results = RunModel(model);
  EXPECT_THAT(results[0].ToDoubles(), ElementsAre(-1, -2, 1, 2));
  EXPECT_THAT(results[1].ToDoubles(), ElementsAre(1, -1, 2, -2));
  EXPECT_THAT(results[2].ToInts(), ElementsAre(2));
}

TEST(OnnxSequence, GrowsInALoop) {
  ModelBuilder body;
  body.Input("i").Input("c").Input("s");
  body.Node("SequenceInsert", {"s", "x"}, {"s2"}).Output("c").Output("s2");
  auto model =
      WithX({2})
          .Ints("three", {3}, {})
          .Node("SequenceEmpty", {}, {"s"})
          .Node("Loop", {"three", "", "s"}, {"all"}, {{"body", body.graph()}})
          .Node("ConcatFromSequence", {"all"}, {"y"}, {{"axis", 0}})
          .Output("y");
  EXPECT_THAT(RunModel(model)[0].ToDoubles(), ElementsAre(1, 2, 1, 2, 1, 2));
}

}  // namespace
}  // namespace asyra
