// The order in which the steps of a plan are issued.
#include <algorithm>

#include "ir/plans/plan_issue.h"
#include "ir/plans/verify_plan.h"
#include "ir/support/status.h"
#include "tests/ir/plans/plan_case.h"

namespace asyra {
namespace {

std::vector<std::string> TextsOf(const ChunkPlan& plan, int rank, int queue) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < plan.steps[rank].size(); ++i) {
    if (plan.steps[rank][i].queue != queue) continue;
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

// All queues of a rank one after the other run only if each has a connection.
TEST(OrderOfIssue, MakesPlansRunOnOneConnection) {
  ChunkPlan plan = ASYRA_VALUE(
      MakePlan(MatmulReduce(4, 8, false).Group(),
               {.order = PlanOrder::kOwnLast, .parts = 2, .copy_queues = 3}));
  for (auto& steps : plan.steps) {
    std::stable_sort(
        steps.begin(), steps.end(),
        [](const PlanStep& a, const PlanStep& b) { return a.queue > b.queue; });
  }
  ASYRA_CHECK_OK(VerifyPlan(plan));
  EXPECT_FALSE(VerifyPlan(plan, {.connections = 1}).ok());
  ChunkPlan issued = plan;
  OrderOfIssue(&issued);
  for (int connections : {0, 1, 2, 3}) {
    ASYRA_CHECK_OK(VerifyPlan(issued, {.connections = connections}));
  }
  for (int rank = 0; rank < 4; ++rank) {
    for (int queue = 0; queue < 4; ++queue) {
      EXPECT_EQ(TextsOf(issued, rank, queue), TextsOf(plan, rank, queue));
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
    return step.kind == PlanStep::kWait && step.queue == 0;
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
  for (int queue = 0; queue < 2; ++queue) {
    EXPECT_EQ(TextsOf(same, 0, queue), TextsOf(plan, 0, queue));
  }
  EXPECT_EQ(Describe(same, 0, 0), Describe(plan, 0, 0));
}

}  // namespace
}  // namespace asyra
