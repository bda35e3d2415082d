// The order in which the steps of a plan are issued.
#include <algorithm>

#include "ir/plan_issue.h"
#include "ir/support/status.h"
#include "ir/verify_plan.h"
#include "tests/ir/plan_case.h"

namespace asyra {
namespace {

std::vector<std::string> TextsOf(const ChunkPlan& plan, int rank, int lane) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < plan.steps[rank].size(); ++i) {
    if (plan.steps[rank][i].lane != lane) continue;
    std::string text = Describe(plan, rank, static_cast<int>(i));
    texts.push_back(text.substr(text.find(": ")));
  }
  return texts;
}

// Of the first such step of rank 0 that `is`.
int PlaceOf(const ChunkPlan& plan,
            const std::function<bool(const PlanStep&)>& is) {
  auto at = std::find_if(plan.steps[0].begin(), plan.steps[0].end(), is);
  return static_cast<int>(at - plan.steps[0].begin());
}

// All lanes of a rank one after the other run on a queue for each lane only.
TEST(OrderOfIssue, MakesPlansRunOnOneQueue) {
  ChunkPlan plan = ASYRA_VALUE(
      MakePlan(MatmulReduce(4, 8, false).Group(),
               {.order = PlanOrder::kOwnLast, .parts = 2, .copy_lanes = 3}));
  for (auto& steps : plan.steps) {
    std::stable_sort(
        steps.begin(), steps.end(),
        [](const PlanStep& a, const PlanStep& b) { return a.lane > b.lane; });
  }
  ASYRA_CHECK_OK(VerifyPlan(plan));
  EXPECT_FALSE(VerifyPlan(plan, {.queues = 1}).ok());
  ChunkPlan issued = plan;
  OrderOfIssue(&issued);
  for (int queues : {0, 1, 2, 3}) {
    ASYRA_CHECK_OK(VerifyPlan(issued, {.queues = queues}));
  }
  for (int rank = 0; rank < 4; ++rank) {
    for (int lane = 0; lane < 4; ++lane) {
      EXPECT_EQ(TextsOf(issued, rank, lane), TextsOf(plan, rank, lane));
    }
  }
}

// A wait for the first part is issued before the copy of the second: it must
// not come behind that where it comes behind all that was posted before.
TEST(OrderOfIssue, WaitsComeWhenTheyEnd) {
  ChunkPlan plan =
      ASYRA_VALUE(MakePlan(GatherMatmuls(2, 16, 1).Group(), {.parts = 2}));
  int seen = 0;
  int second = PlaceOf(plan, [&](const PlanStep& step) {
    return step.kind == PlanStep::kCopy && ++seen == 2;
  });
  int wait = PlaceOf(plan, [&](const PlanStep& step) {
    return step.kind == PlanStep::kWait && step.lane == 0;
  });
  ASSERT_LT(second, static_cast<int>(plan.steps[0].size()));
  EXPECT_LT(wait, second);
}

TEST(OrderOfIssue, LeavesPlansThatCannotRun) {
  ChunkPlan plan = ASYRA_VALUE(MakePlan(GatherMatmuls(2, 4, 1).Group(), {}));
  auto& steps = plan.steps[1];
  steps.erase(std::remove_if(steps.begin(), steps.end(),
                             [](const PlanStep& step) {
                               return step.kind == PlanStep::kPost;
                             }),
              steps.end());
  std::swap(plan.steps[0].front(), plan.steps[0].back());
  ChunkPlan same = plan;
  OrderOfIssue(&same);
  for (int lane = 0; lane < 2; ++lane) {
    EXPECT_EQ(TextsOf(same, 0, lane), TextsOf(plan, 0, lane));
  }
  EXPECT_EQ(Describe(same, 0, 0), Describe(plan, 0, 0));
}

}  // namespace
}  // namespace asyra
