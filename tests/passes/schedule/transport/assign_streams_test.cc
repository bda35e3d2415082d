#include "passes/schedule/transport/assign_streams.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"
#include "passes/pass_manager.h"
#include "passes/schedule/transport/second_stream.h"
#include "simulator/cost/load_machine.h"
#include "simulator/replay/simulate.h"
#include "tests/support/costs.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Two tiles, each reduced, normed and gathered. Matmuls of the first are
// in the way of the norm of the second.
constexpr std::string_view kNorms = R"(asyra 1 scheduled
mesh (tp=2)
program @norms(%a: f32[2048, 4096@tp], %b: f32[2048, 4096@tp],
    %w: f32[4096@tp, 4096] weight, %v: f32[4096, 8192] weight,
    %s: f32[4096] weight) -> (f32[2048, 8192], f32[2048, 8192]) {
  %p = matmul(%a, %w) on compute : f32[2048, 4096] partial(tp)
  %pf = start reduce_scatter(%p) {axes=tp, dim=0} on tp : future f32[2048@tp, 4096]
  %q = matmul(%b, %w) on compute : f32[2048, 4096] partial(tp)
  %qf = start reduce_scatter(%q) {axes=tp, dim=0} on tp : future f32[2048@tp, 4096]
  %pr = wait(%pf) on compute : f32[2048@tp, 4096]
  %pn = rms_norm(%pr, %s) {eps=1e-5} on compute : f32[2048@tp, 4096]
  %pg = start all_gather(%pn) {axes=tp, dim=0} on tp : future f32[2048, 4096]
  %px = wait(%pg) on compute : f32[2048, 4096]
  %py = matmul(%px, %v) on compute : f32[2048, 8192]
  %qr = wait(%qf) on compute : f32[2048@tp, 4096]
  %qn = rms_norm(%qr, %s) {eps=1e-5} on compute : f32[2048@tp, 4096]
  %qg = start all_gather(%qn) {axes=tp, dim=0} on tp : future f32[2048, 4096]
  %qx = wait(%qg) on compute : f32[2048, 4096]
  %qy = matmul(%qx, %v) on compute : f32[2048, 8192]
  return %py, %qy
}
)";

TEST(SideChains, StandBetweenCollectivesWithoutAMatmul) {
  Program program = ParseVerified(kNorms);
  std::vector<SideChain> chains =
      FindSideChains(program, OpsWithoutMatmuls(program));
  ASSERT_EQ(chains.size(), 2);
  EXPECT_THAT(chains[0].ops, ElementsAre(4, 5));
  EXPECT_THAT(chains[1].ops, ElementsAre(9, 10));
  EXPECT_EQ(chains[0].signature, chains[1].signature);
  Program moved = MoveToStream(program, chains, "side");
  absl::Status status = Verify(moved);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(moved.streams[moved.ops[5].stream], "side");
  // Everything crosses by start and wait.
  for (const Op& op : moved.ops) EXPECT_THAT(op.after, IsEmpty());
}

TEST(SideChains, ReadersOnTheOtherStreamWait) {
  std::string text(kNorms);
  // The residual stream goes past the norm.
  size_t at = text.find("  %px = wait");
  text.insert(at, "  %pa = add(%pr, %pr) on compute : f32[2048@tp, 4096]\n");
  Program program = ParseVerified(text);
  Program moved = MoveToStream(
      program, FindSideChains(program, OpsWithoutMatmuls(program)), "side");
  absl::Status status = Verify(moved);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(ToString(moved),
              HasSubstr("%pa = add(%pr, %pr) on compute after(%pr)"));
}

TEST(AssignStreams, ASecondStreamIsKeptWhereItPays) {
  Program program = ParseVerified(kNorms);
  CostModel costs = Costs(program);
  PassContext context;
  context.costs = &costs;
  double before_us = Simulate(program, costs).makespan_us;
  ASYRA_CHECK_OK(RunPasses(program, "assign_streams{ctas=false}", context));
  EXPECT_LT(Simulate(program, costs).makespan_us, before_us);
  EXPECT_THAT(ToString(program), HasSubstr("on compute2"));
}

TEST(AssignStreams, NeedsCosts) {
  Program program = ParseVerified(kNorms);
  PassContext context;
  absl::Status status = RunPasses(program, "assign_streams", context);
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("PassContext::costs"));
}

TEST(AssignStreams, GivenBudgetsStay) {
  std::string text(kNorms);
  for (size_t at = 0; (at = text.find("{axes=tp,", at)) != std::string::npos;
       at += 9) {
    text.insert(at + 9, " ctas=3,");
  }
  Program program = ParseVerified(text);
  CostModel costs = Costs(program);
  PassContext context;
  context.costs = &costs;
  ASYRA_CHECK_OK(RunPasses(program, "assign_streams", context));
  for (const Op& op : program.ops) {
    if (!op.is_collective()) continue;
    EXPECT_EQ(op.attrs.Int("ctas"), 3);
  }
}

// Copy engines take no CTAs from the matmuls beside them.
TEST(AssignStreams, CopyEnginesAreUsedWhereTheyCostLess) {
  Program program = ParseVerified(kNorms);
  Machine machine = ASYRA_VALUE(LoadMachine("h200x8"));
  machine.copy_gbps = machine.link_gbps;
  CostModel costs(machine, program.mesh);
  double before_us = Simulate(program, costs).makespan_us;
  PassContext context;
  context.costs = &costs;
  ASYRA_CHECK_OK(RunPasses(program, "assign_streams{second=false}", context));
  ASYRA_CHECK_OK(Verify(program));
  EXPECT_THAT(ToString(program), HasSubstr("transport=copy_engine"));
  EXPECT_LT(Simulate(program, costs).makespan_us, before_us);

  Program without = ParseVerified(kNorms);
  machine.copy_engines = 0;
  CostModel no_engines(machine, without.mesh);
  context.costs = &no_engines;
  ASYRA_CHECK_OK(RunPasses(without, "assign_streams{second=false}", context));
  EXPECT_THAT(ToString(without), Not(HasSubstr("transport")));
}

}  // namespace
}  // namespace asyra
