#include "executor/cuda/comm/end_together.h"

#include <thread>

#include "gmock/gmock.h"
#include "tests/executor/ranks.h"

namespace asyra {
namespace {

TEST(EndTogether, RanksOfOneProcessWaitForEachOther) {
  std::atomic<int> left = 0;
  auto statuses =
      OnRanks(3, {.timeout_s = 20}, [&](Communicator& host) -> absl::Status {
        auto together = cuda::EndTogether::Join(host);
        if (!together.ok()) return together.status();
        EXPECT_NE(*together, nullptr);
        std::this_thread::sleep_for(
            std::chrono::milliseconds(20 * host.rank()));
        ++left;
        (*together)->Leave();
        EXPECT_TRUE((*together)->Wait(20));
        EXPECT_EQ(left, 3);
        return absl::OkStatus();
      });
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(status.ok()) << status;
}

TEST(EndTogether, WhoDoesNotComeIsNotWaitedForLonger) {
  cuda::EndTogether together(2);
  together.Leave();
  EXPECT_FALSE(together.Wait(0.01));
  together.Leave();
  EXPECT_TRUE(together.Wait(0.01));
}

}  // namespace
}  // namespace asyra
