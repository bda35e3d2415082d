// The cost of a chunk plan: what bounds it, and what it must not promise.
#include "simulator/cost/plan_cost.h"

#include <cmath>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/overlap.h"
#include "ir/parser.h"
#include "ir/plans/overlap_shape.h"
#include "ir/plans/plan_text.h"
#include "ir/support/check.h"
#include "simulator/cost/collective_cost.h"
#include "simulator/cost/load_machine.h"
#include "simulator/cost/plan_replay.h"
#include "simulator/machine/machine.h"
#include "tests/ir/op_case.h"
#include "tests/ir/plans/plan_case.h"

namespace asyra {
namespace {

struct Times {
  double overlap_us, compute_us, comm_us;
};

// Gate and up of an MLP over `tp` GPUs, its rows gathered.
Times Gather(int64_t rows, int tp, const std::string& attrs,
             const std::string& machine = "h200x8",
             const std::string& gather = ", transport=copy_engine") {
  Mesh mesh = ASYRA_VALUE(Mesh::Create({{"a", tp}}));
  CostModel costs(ASYRA_VALUE(LoadMachine(machine)), mesh);
  auto cost = [&](const std::string& text) {
    ParsedCall call = ASYRA_VALUE(ParseCall(text, mesh));
    std::vector<Type> results =
        ASYRA_VALUE(InferTypes(*call.def, call.attrs, call.operands, mesh));
    return costs.Cost({*call.def, call.attrs, call.operands, results}).time_us;
  };
  std::string x = fmt::format("bf16[{}@a,4096]", rows);
  std::string all = fmt::format("bf16[{},4096]", rows);
  return {cost(fmt::format(
              "overlap({}, bf16[4096,14336@a]) {{"
              "%2 = all_gather(%0) {{dim=0, axes=a}} : {} "
              "%3 = matmul(%2, %1) : bf16[{},14336@a] return %3}} {{{}}}",
              x, all, rows, attrs)),
          cost(fmt::format("matmul({}, bf16[4096,14336@a])", all)),
          cost(fmt::format("all_gather({}) {{dim=0, axes=a{}}}", x, gather))};
}

// Between GPUs without peer access, and between hosts, it runs op by op.
TEST(PlanCost, NothingOverlapsWhereCopyEnginesDoNotReach) {
  Times pcie = Gather(8192, 4, "parts=1", "rtx4090x8", "");
  EXPECT_DOUBLE_EQ(pcie.overlap_us, pcie.compute_us + pcie.comm_us);
  Times hosts = Gather(8192, 16, "parts=1", "h200x8", "");
  EXPECT_DOUBLE_EQ(hosts.overlap_us, hosts.compute_us + hosts.comm_us);
}

TEST(PlanCost, LargeGathersHideBehindTheirMatmul) {
  for (int tp : {2, 4, 8}) {
    Times p = Gather(8192, tp, "parts=1");
    EXPECT_LT(p.overlap_us, 0.97 * (p.compute_us + p.comm_us)) << tp;
    // Smaller matmuls are no faster than the one.
    EXPECT_GT(p.overlap_us, 0.97 * std::max(p.compute_us, p.comm_us)) << tp;
  }
}

TEST(PlanCost, SmallPiecesLose) {
  for (int tp : {2, 4, 8}) {
    Times one = Gather(8192, tp, "parts=1");
    Times many = Gather(8192, tp, "parts=32");
    EXPECT_GT(many.overlap_us, one.overlap_us) << tp;
  }
}

// A few meetings and copies cost as much as there is to hide.
TEST(PlanCost, LittleWorkGainsNothing) {
  for (int tp : {2, 4, 8}) {
    Times p = Gather(256, tp, "parts=1");
    EXPECT_GT(p.overlap_us, 0.9 * (p.compute_us + p.comm_us)) << tp;
  }
}

// Own rows first: the order that waits for nobody is the fastest.
TEST(PlanCost, OrderMatters) {
  for (int tp : {2, 4, 8}) {
    EXPECT_LT(Gather(8192, tp, "order=own_first").overlap_us,
              Gather(8192, tp, "order=own_last").overlap_us);
  }
}

// The plan that is written out is the one that is simulated: that of a template
// costs the same, another one what it does.
TEST(PlanCost, AWrittenPlanIsReplayed) {
  Mesh mesh = ParseMesh("(a=4)");
  CostModel costs(ASYRA_VALUE(LoadMachine("h200x8")), mesh);
  ParsedCall call = ASYRA_VALUE(
      ParseCall("overlap(bf16[8192@a,4096], bf16[4096,4096@a]) {"
                "%2 = all_gather(%0) {dim=0, axes=a} : bf16[8192,4096] "
                "%3 = matmul(%2, %1) : bf16[8192,4096@a] return %3}",
                mesh));
  std::vector<Type> results =
      ASYRA_VALUE(InferTypes(*call.def, call.attrs, call.operands, mesh));
  auto time = [&](const AttrMap& attrs) {
    return costs.Cost({*call.def, attrs, call.operands, results}).time_us;
  };
  GroupBody group =
      ASYRA_VALUE(GroupBodyOf(*BodyOf(call.attrs), call.operands, mesh));
  ChunkPlan plan = ASYRA_VALUE(PlanOf(call.attrs, call.operands, mesh));
  AttrMap written = call.attrs, late = call.attrs;
  SetPlan(ASYRA_VALUE(ParsePlan(PrintPlan(plan), group)), &written);
  EXPECT_EQ(time(written), time(call.attrs));
  // The first piece waits for the last chunk: nothing is hidden.
  std::string text = PrintPlan(plan);
  size_t piece = text.find("piece"), await = text.rfind("await came from copy");
  std::string last = text.substr(await, text.find(';', await) + 1 - await);
  text.erase(await, last.size());
  text.insert(piece, last + " ");
  SetPlan(ASYRA_VALUE(ParsePlan(text, group)), &late);
  EXPECT_GT(time(late), 1.2 * time(call.attrs));
}

// Posts to the other ranks, one behind the other, are one memory operation, and
// so are waits for them, which hold up the next kernel.
TEST(PlanCost, SignalsOfPeersAreOneOperation) {
  Mesh mesh = ParseMesh("(g=4)");
  CostModel costs(ASYRA_VALUE(LoadMachine("h200x8")), mesh);
  PlanCase c = GatherMatmuls(4, 64);
  ChunkPlan plan = ASYRA_VALUE(MakePlan(c.Group(), {}));
  std::map<double, int> posts, waits;  // by time, of what joins no other
  for (const PlanSpan& span : ReplayPlan(plan, costs).spans) {
    const PlanStep& step = plan.steps[span.rank][span.step];
    bool joins = JoinsStepBefore(plan, span.rank, span.step);
    double us = std::round(100 * (span.end_us - span.start_us)) / 100;
    if (step.kind == PlanStep::kPost && step.queue == 0) {
      ++posts[us];
      EXPECT_EQ(joins, us == kCopyMoreFlagUs);
    }
    if (step.kind == PlanStep::kWait && step.queue == 0) ++waits[us];
  }
  // Each rank is ready for three others, and waits for what each sends.
  EXPECT_THAT(posts, testing::ElementsAre(testing::Pair(kCopyMoreFlagUs, 8),
                                          testing::Pair(kCopyFlagUs, 4)));
  EXPECT_THAT(waits, testing::ElementsAre(testing::Pair(kCopyAwaitUs, 12)));
}

TEST(PlanCost, ReplaysEveryStepOnce) {
  Mesh mesh = ParseMesh("(a=2, b=2)");
  CostModel costs(ASYRA_VALUE(LoadMachine("h200x8")), mesh);
  for (const Sample& sample : FindOp("overlap")->samples) {
    ParsedCall call = ASYRA_VALUE(ParseCall(sample.text, mesh));
    ChunkPlan plan = ASYRA_VALUE(PlanOf(call.attrs, call.operands, mesh));
    PlanTimes times = ReplayPlan(plan, costs);
    size_t steps = 0;
    for (const auto& of_rank : plan.steps) steps += of_rank.size();
    EXPECT_EQ(times.spans.size(), steps);
    for (const PlanSpan& span : times.spans) {
      EXPECT_LE(span.start_us, span.end_us);
      EXPECT_LE(span.end_us, times.time_us);
    }
    EXPECT_LE(times.compute_us, times.time_us);
  }
}

}  // namespace
}  // namespace asyra
