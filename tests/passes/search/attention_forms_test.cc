// Forms of attention that the search takes: keys and heads in parts.
#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "models/models.h"
#include "passes/compile.h"
#include "simulator/cost/load_machine.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

RaisedProgram LlamaOf(int64_t tokens, int64_t vocabulary) {
  RaisedProgram model;
  model.program =
      ASYRA_VALUE(BuiltinModel("llama3-8b", {{"layers", 1},
                                             {"batch", 1},
                                             {"seq", tokens},
                                             {"logits", 1},
                                             {"vocabulary", vocabulary}}));
  return model;
}

// Two hosts of four, which one network card each connects.
Machine SlowHosts() {
  return ASYRA_VALUE(LoadMachine("h100x8", {"host.gpus=4", "network.nics=1",
                                            "network.gbps.achievable=12.1"}));
}

absl::StatusOr<CompileResult> Compiled(const RaisedProgram& model,
                                       const Mesh::Axis& axis,
                                       const Machine& machine,
                                       const CompileOptions& options) {
  return Compile(model, ASYRA_VALUE(Mesh::Create({axis})), machine, options);
}

std::string Chosen(const CompileResult& result) {
  for (const ScheduleChoice& choice : result.schedule->candidates) {
    if (choice.rejected.empty()) return choice.name;
  }
  return "";
}

TEST(AttentionForms, HideTheExchangeOverSlowLinks) {
  RaisedProgram model = LlamaOf(131072, 8192);
  CompileOptions open, whole;
  open.order_axes = true;
  whole = open;
  whole.key_walk = "never";
  whole.head_parts = 1;
  Machine machine = SlowHosts();
  CompileResult before =
      ASYRA_VALUE(Compiled(model, {"sp", 8}, machine, whole));
  CompileResult after = ASYRA_VALUE(Compiled(model, {"sp", 8}, machine, open));
  EXPECT_THAT(Chosen(after), HasSubstr(" parts"));
  EXPECT_THAT(Chosen(before), testing::Not(HasSubstr(" parts")));
  EXPECT_LT(after.schedule->optimized.makespan_us,
            0.9 * before.schedule->optimized.makespan_us);
}

// Nothing is exposed where devices have heads of their own on fast links.
TEST(AttentionForms, AreNotTriedWhereNothingIsExposed) {
  CompileResult result = ASYRA_VALUE(
      Compiled(LlamaOf(32768, 8192), {"tp", 8},
               ASYRA_VALUE(LoadMachine("h200x8")), CompileOptions()));
  for (const ScheduleChoice& choice : result.schedule->candidates) {
    EXPECT_THAT(choice.name, testing::Not(HasSubstr(" parts")));
  }
}

// 2M tokens with 8 heads of keys, which do not divide over 16 devices: whole
// keys are 8 GiB on each.
TEST(AttentionForms, FitWhereWholeKeysDoNot) {
  RaisedProgram model = LlamaOf(2097152, 8192);
  Machine machine = ASYRA_VALUE(LoadMachine("h200x8"));
  CompileOptions whole;
  whole.key_walk = "never";
  whole.head_parts = 1;
  constexpr int64_t kCapacity = int64_t{17} << 30;
  whole.schedule.capacity_bytes = kCapacity;
  CompileOptions open;
  open.schedule.capacity_bytes = kCapacity;
  EXPECT_THAT(
      std::string(
          Compiled(model, {"sp", 16}, machine, whole).status().message()),
      HasSubstr("no schedule found fits"));
  CompileResult result =
      ASYRA_VALUE(Compiled(model, {"sp", 16}, machine, open));
  EXPECT_THAT(Chosen(result), HasSubstr(" parts"));
  EXPECT_LE(result.schedule->device_bytes, kCapacity);
}

}  // namespace
}  // namespace asyra
