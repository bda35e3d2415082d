#include "executor/cuda/comm/joint_teardown.h"

#include <thread>

#include "gmock/gmock.h"
#include "tests/executor/ranks.h"

namespace asyra {
namespace {

TEST(JointTeardown, RanksOfOneProcessWaitForEachOther) {
  std::atomic<int> left = 0;
  auto statuses =
      OnRanks(3, {.timeout_s = 20}, [&](Communicator& control) -> absl::Status {
        auto teardown = cuda::JointTeardown::Join(control);
        if (!teardown.ok()) return teardown.status();
        EXPECT_NE(*teardown, nullptr);
        std::this_thread::sleep_for(
            std::chrono::milliseconds(20 * control.rank()));
        ++left;
        (*teardown)->Leave();
        EXPECT_TRUE((*teardown)->Wait(20));
        EXPECT_EQ(left, 3);
        return absl::OkStatus();
      });
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(status.ok()) << status;
}

TEST(JointTeardown, WhoDoesNotComeIsNotWaitedForLonger) {
  cuda::JointTeardown teardown(2);
  teardown.Leave();
  EXPECT_FALSE(teardown.Wait(0.01));
  teardown.Leave();
  EXPECT_TRUE(teardown.Wait(0.01));
}

}  // namespace
}  // namespace asyra
