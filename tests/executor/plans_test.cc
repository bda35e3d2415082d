// The executor's plans on random scheduled programs: the verifier accepts the
// memory it plans, and its events give the whole order of happens-before.
#include "executor/memory_plan.h"
#include "executor/sync_plan.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "tests/executor/runnable.h"

namespace asyra {
namespace {

class Plans : public testing::TestWithParam<int> {
 protected:
  Plans()
      : program_(RunnableProgram(GetParam())),
        def_use_(program_),
        order_(program_, def_use_) {}
  Program program_;
  DefUse def_use_;
  HappensBefore order_;
};

TEST_P(Plans, TheVerifierAcceptsThePlannedMemory) {
  MemoryPlan plan =
      ASYRA_VALUE(PlanMemory(program_, order_, def_use_, {.guard_bytes = 0}));
  Program allocated = program_;
  allocated.stage = Stage::kAllocated;
  int64_t end = 0, sum = 0;
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const Placement& at = plan.values[v];
    if (at.region != Region::kArena) continue;
    allocated.values[v].offset = at.offset;
    end = std::max(end, at.offset + at.bytes);
    sum += at.bytes;
  }
  absl::Status verified = Verify(allocated);
  EXPECT_TRUE(verified.ok()) << verified;
  EXPECT_LE(end, plan.arena_bytes);
  EXPECT_LT(plan.arena_bytes, sum) << "nothing is reused";
}

TEST_P(Plans, EventsGiveTheOrderOfHappensBefore) {
  SyncPlan plan = PlanSync(program_, order_, def_use_);
  size_t n = program_.ops.size();
  // Which ops have finished before which begin, by events and streams alone.
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n));
  std::vector<int> last(plan.last_on.size(), -1);
  for (size_t i = 0; i < n; ++i) {
    auto after = [&](int earlier) {
      before[i][earlier] = true;
      for (size_t k = 0; k < n; ++k) {
        if (before[earlier][k]) before[i][k] = true;
      }
    };
    int& own = last[plan.ops[i].stream];
    if (own >= 0) after(own);
    own = static_cast<int>(i);
    for (int wait : plan.ops[i].waits) {
      EXPECT_TRUE(plan.ops[wait].record);
      after(wait);
    }
    for (size_t k = 0; k < n; ++k) {
      EXPECT_EQ(before[i][k],
                order_.Finished(static_cast<int>(k), static_cast<int>(i)))
          << k << " before " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Plans, testing::Range(0, 50));

}  // namespace
}  // namespace asyra
