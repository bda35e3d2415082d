// Where sums are taken out of collectives; what comes out is in
// tests/fixtures/decompose_reduce_scatter.
#include "passes/shard/decompose_reduce_scatter.h"

#include <optional>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/load_machine.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Program Scatter() {
  return ASYRA_VALUE(ParseProgram(R"(asyra 1 local
mesh (tp=4)
program @p(%x: f32[8, 8@tp]) -> (f32[8@tp]) {
  %s = reduce_sum(%x) {dims=[1], keep=false} : f32[8] partial(tp)
  %y = reduce_scatter(%s) {dim=0, axes=tp} : f32[8@tp]
  return %y
}
)"));
}

absl::StatusOr<bool> DecomposeOn(bool copyable, const char* machine,
                                 Program* program, PassContext* context) {
  std::optional<CostModel> costs;
  if (machine != nullptr) {
    costs.emplace(ASYRA_VALUE(LoadMachine(machine)), program->mesh);
    context->costs = &*costs;
  }
  auto changed =
      DecomposeReduceScatter(*program, {{"copyable", copyable}}, *context);
  context->costs = nullptr;
  return changed;
}

TEST(DecomposeReduceScatter, OnlyWhatCopyEnginesCanCarryWhereThatIsAsked) {
  for (auto [copyable, machine, changes] :
       std::vector<std::tuple<bool, const char*, bool>>{
           {true, "h200x8", true},
           {true, "rtx4090x8", false},  // devices do not reach each other
           {false, "rtx4090x8", true},
           {false, nullptr, true}}) {
    Program program = Scatter();
    std::string before = ToString(program);
    PassContext context;
    EXPECT_EQ(ASYRA_VALUE(DecomposeOn(copyable, machine, &program, &context)),
              changes);
    EXPECT_EQ(ToString(program) != before, changes);
    EXPECT_THAT(
        context.remarks,
        ElementsAre(changes
                        ? "decompose_reduce_scatter: 1 of 1 made an all_to_all "
                          "and a sum"
                        : "decompose_reduce_scatter: none of 1 is of one value "
                          "of floats, over devices that copy engines connect"));
  }
}

TEST(DecomposeReduceScatter, ASecondTimeThereAreNone) {
  Program program = Scatter();
  PassContext context;
  EXPECT_TRUE(ASYRA_VALUE(DecomposeOn(false, nullptr, &program, &context)));
  EXPECT_FALSE(ASYRA_VALUE(DecomposeOn(false, nullptr, &program, &context)));
}

TEST(DecomposeReduceScatter, WhatCopyEnginesCanCarryDependsOnTheMachine) {
  Program program = Scatter();
  PassContext context;
  auto changed = DecomposeOn(true, nullptr, &program, &context);
  EXPECT_THAT(std::string(changed.status().message()),
              HasSubstr("copyable needs costs of a machine"));
}

}  // namespace
}  // namespace asyra
