// Errors of training name the nodes of an ONNX file.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/op_sources.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "tests/frontends/model_builder.h"

namespace asyra {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SourceOf, IsThatOfTheValueOrOfWhatItWasMadeFrom) {
  OpSources sources = {{"h", "MatMul node 'a'"}, {"h.x", "Exp node 'b'"}};
  EXPECT_EQ(SourceOf(sources, "h"), "MatMul node 'a'");
  EXPECT_EQ(SourceOf(sources, "h.12"), "MatMul node 'a'");
  EXPECT_EQ(SourceOf(sources, "h.x.back.1"), "Exp node 'b'");
  EXPECT_EQ(SourceOf(sources, "other"), "");
  EXPECT_EQ(SourceOf({}, ""), "");
}

struct Imported {
  Program program;
  OpSources sources;
};

// The error of differentiating it, where no op called `name` has a derivative.
std::string ErrorWithout(std::string_view name, Imported model) {
  PassContext context;
  context.op_sources = model.sources;
  ASYRA_CHECK(RunPasses(model.program, RaisePasses(), context).ok());
  ASYRA_CHECK(
      RunPasses(model.program, "attach_loss, mark_params", context).ok());
  OpDef without = *FindOp(name);
  without.vjp = nullptr;
  for (Op& op : model.program.ops) {
    if (op.def->name == name) op.def = &without;
  }
  const PassRecord& pass = *MakePass("differentiate").pass;
  auto done = pass.fn(model.program, {}, context);
  return done.ok() ? "" : std::string(MessageOf(done.status()));
}

Imported Import(const ModelBuilder& model) {
  Imported imported;
  imported.program = ASYRA_VALUE(model.Import({}, &imported.sources));
  return imported;
}

TEST(OpSources, NameNodesWhoseOutputsHaveOtherNames) {
  ModelBuilder model;
  model.Input("x", kF32, {2, 3})
      .Floats("w", {1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3})
      .Node("MatMul", {"x", "w"}, {"hidden"})
      .Node("Erf", {"hidden"}, {"curved"})
      .Node("Exp", {"curved"}, {"logits"})
      .Output("logits");
  EXPECT_THAT(ErrorWithout("erf", Import(model)),
              AllOf(HasSubstr("op erf of %curved (Erf node 'node_curved') has "
                              "no derivative"),
                    HasSubstr("between the loss and w")));
}

TEST(OpSources, NameTheNodeOfEachOfItsOps) {
  // Gemm with a scale is several ops; the last of them has the node's output.
  ModelBuilder model;
  model.Input("x", kF32, {2, 3})
      .Floats("w", {1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3})
      .Floats("bias", {1, 2, 3}, {3})
      .Node("Gemm", {"x", "w", "bias"}, {"logits"}, {{"alpha", 0.5f}})
      .Output("logits");
  for (const char* op : {"matmul", "mul", "add"}) {
    EXPECT_THAT(ErrorWithout(op, Import(model)),
                HasSubstr("(Gemm node 'node_logits') has no derivative"))
        << op;
  }
}

TEST(OpSources, NameNodesWithinFunctions) {
  ModelBuilder body;
  body.Input("a").Node("Erf", {"a"}, {"b"}).Output("b");
  ModelBuilder model;
  model.Input("x", kF32, {2, 3})
      .Floats("w", {1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3})
      .Node("MatMul", {"x", "w"}, {"hidden"});
  model.Function("Curve", body);
  model.Call("Curve", {"hidden"}, {"curved"})
      .Node("Exp", {"curved"}, {"logits"})
      .Output("logits");
  EXPECT_THAT(ErrorWithout("erf", Import(model)),
              HasSubstr("(Erf node 'node_curved.node_b') has no derivative"));
}

}  // namespace
}  // namespace asyra
