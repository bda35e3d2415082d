#include "passes/search/factor_sequence.h"

#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "models/models.h"
#include "passes/compile.h"
#include "passes/training.h"
#include "simulator/cost/load_machine.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

Program Llama(const std::vector<Mesh::Axis>& axes) {
  Program model = ASYRA_VALUE(BuiltinModel(
      "llama3-8b",
      {{"layers", 1}, {"batch", 1}, {"seq", 32768}, {"logits", 1}}));
  model.mesh = ASYRA_VALUE(Mesh::Create(axes));
  return model;
}

std::string Factored(const std::vector<Mesh::Axis>& axes,
                     const CompileOptions& options = {},
                     std::string* remark = nullptr) {
  PassContext context;
  Mesh mesh = ASYRA_VALUE(FactorSequence(
      options, Llama(axes), ASYRA_VALUE(LoadMachine("h200x8")), context));
  if (remark != nullptr && !context.remarks.empty()) {
    *remark = context.remarks.back();
  }
  return ToString(mesh);
}

// 8 heads of keys.
TEST(FactorSequence, GivesHeadsTheDevicesThatDivideThem) {
  std::string remark;
  EXPECT_EQ(Factored({{"sp", 16}}, {}, &remark), "(sp.context=2, sp=8)");
  EXPECT_THAT(remark, HasSubstr("mesh (sp.context=2, sp=8): axis sp as two"));
  EXPECT_EQ(Factored({{"sp", 32}}), "(sp.context=4, sp=8)");
  // Heads divide, and are on one host.
  EXPECT_EQ(Factored({{"sp", 8}}), "(sp=8)");
}

TEST(FactorSequence, LeavesWhatTheUserHasFixed) {
  CompileOptions pinned, closed;
  pinned.sharding.pins = "layer0.attention=1@sp";
  closed.factor_sequence = false;
  EXPECT_EQ(Factored({{"sp", 16}}, pinned), "(sp=16)");
  EXPECT_EQ(Factored({{"sp", 16}}, closed), "(sp=16)");
  EXPECT_EQ(Factored({{"sp.context", 4}, {"sp", 4}}), "(sp.context=4, sp=4)");
  EXPECT_EQ(Factored({{"tp", 16}}), "(tp=16)");
}

// The whole way: the program is over the parts, and its prediction too.
TEST(FactorSequence, IsCompiledOverTheParts) {
  RaisedProgram model;
  model.program = Llama({});
  CompileOptions options;
  options.order_axes = true;
  options.schedule.search_steps = 50;
  CompileResult result =
      ASYRA_VALUE(Compile(model, ASYRA_VALUE(Mesh::Create({{"sp", 16}})),
                          ASYRA_VALUE(LoadMachine("h200x8")), options));
  EXPECT_EQ(ToString(result.program.mesh), "(sp.context=2, sp=8)");
  EXPECT_EQ(result.costs->mesh(), result.program.mesh);
  bool runs = false;
  for (const Op& op : result.program.ops) {
    runs |= op.def->name == "attention" && op.attrs.Int("runs") == 2;
  }
  EXPECT_TRUE(runs);
}

// A training step and the programs beside it are over the same parts.
TEST(FactorSequence, TrainsOverTheParts) {
  RaisedProgram model;
  model.program = Llama({});
  CompileOptions options;
  options.train.emplace();
  options.order_axes = true;
  options.schedule.search_steps = 20;
  CompiledTraining training = ASYRA_VALUE(
      CompileTraining(model, ASYRA_VALUE(Mesh::Create({{"sp", 16}})),
                      ASYRA_VALUE(LoadMachine("h200x8")), options));
  for (const Program* program :
       {&training.step.program, &training.evaluate, &training.init}) {
    EXPECT_EQ(ToString(program->mesh), "(sp.context=2, sp=8)");
  }
}

}  // namespace
}  // namespace asyra
