#include "passes/schedule/transport/sm_margin.h"

#include "gtest/gtest.h"
#include "ir/copy_engine.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "simulator/cost/sharing.h"
#include "simulator/machine/machine.h"
#include "tests/support/costs.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

// One collective of the library, one whose CTAs are given, one by
// copies; matmuls before, beside and after them.
constexpr char kProgram[] = R"(asyra 1 scheduled
mesh (tp=4)
program @f(%a: bf16[8192@tp, 4096], %b: bf16[8192@tp, 4096], %c: bf16[8192@tp, 4096],
    %w: bf16[4096, 4096] weight) ->
    (bf16[8192, 4096], bf16[8192, 4096], bf16[8192, 4096], bf16[8192, 4096]) {
  %before = matmul(%a, %w) on compute : bf16[8192@tp, 4096]
  %f = start all_gather(%before) {dim=0, axes=tp} on tp : future bf16[8192, 4096]
  %g = start all_gather(%b) {dim=0, axes=tp, ctas=4} on tp : future bf16[8192, 4096]
  %beside = matmul(%a, %w) on compute : bf16[8192@tp, 4096]
  %neg = neg(%beside) on compute : bf16[8192@tp, 4096]
  %y = wait(%f) on compute : bf16[8192, 4096]
  %z = wait(%g) on compute : bf16[8192, 4096]
  %h = start all_gather(%c) {dim=0, axes=tp, transport=copy_engine} on tp : future bf16[8192, 4096]
  %after = matmul(%neg, %w) on compute : bf16[8192@tp, 4096]
  %x = wait(%h) on compute : bf16[8192, 4096]
  %v = start all_gather(%after) {dim=0, axes=tp, transport=copy_engine} on tp : future bf16[8192, 4096]
  %u = wait(%v) on compute : bf16[8192, 4096]
  return %x, %y, %z, %u
}
)";

std::vector<int> MarginsOf(const Program& program) {
  std::vector<int> margins;
  for (const Op& op : program.ops) {
    if (op.def->name == "matmul") margins.push_back(SmMargin(op.attrs));
  }
  return margins;
}

TEST(SetSmMargin, MatmulsLeaveWhatCollectivesTake) {
  Program program = Parse(kProgram);
  CostModel costs = Costs(program, "h200x8");
  EXPECT_EQ(SetSmMargin(program, costs, 8), 3);
  EXPECT_EQ(MarginsOf(program), (std::vector<int>{8, 8, 8}));
  EXPECT_EQ(program.ops[1].attrs.Int("ctas"), 8);
  EXPECT_EQ(program.ops[2].attrs.Int("ctas"), 4);
  EXPECT_EQ(program.ops[7].attrs.Int("ctas"), 0);
  EXPECT_TRUE(Verify(program).ok()) << Verify(program);
  // Only what fills SMs is asked to.
  EXPECT_EQ(SmMargin(program.ops[4].attrs), 0);
}

TEST(SetSmMargin, NoMoreThanTheLibraryTakes) {
  Program program = Parse(kProgram);
  CostModel costs = Costs(program, "h200x8");
  int sms = EstimateCosts(program, costs)[1].sms;
  EXPECT_EQ(SetSmMargin(program, costs, 64), 3);
  EXPECT_EQ(program.ops[1].attrs.Int("ctas"), sms);
}

TEST(SetSmMargin, OnlyWhereGemmsArePersistent) {
  Program program = Parse(kProgram);
  EXPECT_EQ(SetSmMargin(program, Costs(program, "a100x8"), 8), 0);
  EXPECT_EQ(MarginsOf(program), (std::vector<int>{0, 0, 0}));
}

TEST(SetSmMargin, NothingForCopyEngines) {
  Program program = Parse(kProgram);
  for (Op& op : program.ops) {
    if (op.is_collective()) AskForCopyEngine(true, &op.attrs);
  }
  EXPECT_EQ(SetSmMargin(program, Costs(program, "h200x8"), 8), 0);
}

TEST(SetSmMargin, ReductionsBehindCopyEnginesAreTheLibrarys) {
  Program program = Parse(R"(asyra 1 scheduled
mesh (tp=4)
program @f(%a: bf16[8192, 4096@tp], %w: bf16[4096@tp, 4096] weight) -> (bf16[8192, 4096]) {
  %p = matmul(%a, %w) on compute : bf16[8192, 4096] partial(tp)
  %f = start reduce_scatter(%p) {dim=0, axes=tp, transport=copy_engine} on tp : future bf16[8192@tp, 4096]
  %s = wait(%f) on compute : bf16[8192@tp, 4096]
  %g = start all_gather(%s) {dim=0, axes=tp, transport=copy_engine} on tp : future bf16[8192, 4096]
  %y = wait(%g) on compute : bf16[8192, 4096]
  return %y
}
)");
  EXPECT_EQ(SetSmMargin(program, Costs(program, "h200x8"), 8), 1);
  EXPECT_FALSE(AsksForCopyEngine(program.ops[1].attrs));
  EXPECT_EQ(program.ops[1].attrs.Int("ctas"), 8);
  EXPECT_TRUE(AsksForCopyEngine(program.ops[3].attrs));
}

TEST(SetSmMargin, OnlyBesideCollectives) {
  Program program = Parse(kProgram);
  SetSmMargin(program, Costs(program, "h200x8"), 8);
  KeepSmMarginBesideCollectives(program);
  // The first one ends before any begins; the last one begins after all that
  // the library carries.
  EXPECT_EQ(MarginsOf(program), (std::vector<int>{0, 8, 0}));
}

TEST(SetSmMargin, TheMarginCostsTime) {
  Program program = Parse(kProgram);
  CostModel costs = Costs(program, "h200x8");
  std::vector<OpCost> whole = EstimateCosts(program, costs);
  SetSmMargin(program, costs, 33);
  std::vector<OpCost> less = EstimateCosts(program, costs);
  double share = 1 - 33.0 / 132;
  double slower = SlowdownOn(share, whole[3].waves);
  EXPECT_LE(less[3].time_us, whole[3].time_us * slower);
  EXPECT_GT(less[3].time_us, whole[3].time_us * slower * 0.9);
  EXPECT_LE(less[3].load[kSms], share + 1e-9);
  EXPECT_DOUBLE_EQ(less[3].load[kCtaSlots], share);
  EXPECT_EQ(less[4].time_us, whole[4].time_us);
}

}  // namespace
}  // namespace asyra
