// Names of dimensions reach what they decide, from the file on.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "passes/analysis/step_shape.h"
#include "tests/frontends/model_builder.h"
#include "tools/compile.h"

namespace asyra {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Matmuls mix channels and positions in turn, so that only names tell the two
// apart.
CompileFlags Mixer(const ModelBuilder::Dim& batch,
                   const ModelBuilder::Dim& last) {
  using Perm = std::vector<int64_t>;
  ModelBuilder model;
  model.Input("x", kF32, {batch, 6, last})
      .Floats("wt", std::vector<float>(64, 0.5f), {8, 8})
      .Floats("w", std::vector<float>(36, 0.5f), {6, 6})
      .Node("MatMul", {"x", "wt"}, {"m"})
      .Node("Add", {"x", "m"}, {"a"})
      .Node("Transpose", {"a"}, {"t"}, {{"perm", Perm{0, 2, 1}}})
      .Node("MatMul", {"t", "w"}, {"y"})
      .Output("y");
  CompileFlags options;
  options.model = (ModelBuilder::TestFolder() / "model.onnx").string();
  std::ofstream(options.model, std::ios::binary)
      << model.model.SerializeAsString();
  options.search_steps = 20;
  return options;
}

CompileFlags Named() {
  CompileFlags options = Mixer("batch", "time");
  options.dims = {"batch=4", "time=8"};
  return options;
}

std::string InputOver(const CompileFlags& options) {
  CompiledModel result = ASYRA_VALUE(Compile(options));
  const Program& program = *result.partitioned;
  return ToString(program.type(program.inputs[0].value), program.mesh);
}

TEST(DimNames, SayWhatAnAxisShards) {
  CompileFlags options = Mixer(4, 8);
  options.sp = 2;
  EXPECT_EQ(InputOver(options), "f32[4, 6@sp, 8]");
  options = Named();
  options.sp = 2;
  EXPECT_EQ(InputOver(options), "f32[4, 6, 8@sp]");
}

TEST(DimNames, SayWhatTilesCut) {
  CompileFlags options = Named();
  options.tiles = 2;
  options.tile_dim = "sequence";
  options.bucket = false;
  CompiledModel result = ASYRA_VALUE(Compile(options));
  EXPECT_THAT(ToString(result.program),
              HasSubstr("tile(%x) {dim=2, part=1, of=2}"));
}

TEST(DimNames, SayWhatAStepIs) {
  CompiledModel result = ASYRA_VALUE(Compile(Named()));
  StepShape shape = StepShapeOf(result.raised, result.dim_names);
  EXPECT_EQ(shape.batch, 4);
  EXPECT_THAT(shape.tokens, testing::ElementsAre(8));
}

TEST(DimNames, AreInRefusals) {
  CompileFlags options = Named();
  options.sp = 3;
  EXPECT_THAT(Compile(options).status().ToString(),
              AllOf(HasSubstr("dim 0 \"batch\" of %x has size 4 (batch)"),
                    HasSubstr("dim 2 \"time\" of %x has size 8 (3 does not "
                              "divide it)")));
}

}  // namespace
}  // namespace asyra
