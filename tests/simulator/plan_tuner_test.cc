// The tuner never loses to a fixed shape.
#include "simulator/plan_tuner.h"

#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/verify_plan.h"
#include "simulator/plan_cost.h"
#include "tests/ir/plan_case.h"

namespace asyra {
namespace {

// Large enough to hide something.
PlanCase Large(PlanCase c, std::vector<Type> operands) {
  c.operands = std::move(operands);
  return c;
}

std::vector<PlanCase> Cases(int n) {
  Type rows(DType::kBF16, {8192, 4096}), wide(DType::kBF16, {4096, 14336});
  Type inner(DType::kBF16, {1, 8192, 14336});
  Type back(DType::kBF16, {14336, 4096});
  return {
      Large(GatherMatmuls(n, 8 * n, 1), {Sharded(rows, 0), Sharded(wide, 1)}),
      Large(MatmulReduce(n, 8 * n, false),
            {Sharded(inner, 2), Sharded(back, 0)})};
}

TEST(PlanTuner, NeverLosesToAFixedShape) {
  for (int n : {2, 4, 8}) {
    for (const PlanCase& c : Cases(n)) {
      SCOPED_TRACE(c.name + std::to_string(n));
      CostModel costs(ASYRA_VALUE(LoadMachine("h200x8")), c.mesh);
      PlanOrder order =
          c.name == "gather" ? PlanOrder::kOwnFirst : PlanOrder::kOwnLast;
      OverlapTuning tuned = TuneOverlap(c.Group(), order, costs);
      ASSERT_GT(tuned.time_us, 0);
      ChunkPlan plan = ASYRA_VALUE(MakePlan(c.Group(), tuned.shape));
      ASYRA_CHECK_OK(VerifyPlan(plan));
      EXPECT_DOUBLE_EQ(ReplayPlan(plan, costs).time_us, tuned.time_us);
      for (int64_t parts : {1, 2, 4}) {
        ChunkPlan fixed =
            ASYRA_VALUE(MakePlan(c.Group(), {.order = order, .parts = parts}));
        EXPECT_LE(tuned.time_us, ReplayPlan(fixed, costs).time_us);
      }
    }
  }
}

}  // namespace
}  // namespace asyra
