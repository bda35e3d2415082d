#include "tests/support/stack_watch.h"

#include "gtest/gtest.h"

namespace asyra {
namespace {

using std::chrono::milliseconds;

int StacksIn(const std::string& text) {
  int count = 0;
  for (size_t at = 0; (at = text.find("stack of thread", at)) != text.npos;
       ++at) {
    ++count;
  }
  return count;
}

TEST(StackWatch, PrintsTheStacksOfAllThreadsThatHang) {
  std::mutex mutex;
  testing::internal::CaptureStderr();
  {
    std::unique_lock held(mutex);
    std::thread hangs([&] { std::lock_guard waits(mutex); });
    {
      StackWatch watch(milliseconds(20));
      std::this_thread::sleep_for(milliseconds(600));
    }
    held.unlock();
    hangs.join();
  }
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_GE(StacksIn(text), 2) << text;
  EXPECT_NE(text.find("support_test("), text.npos) << text;
}

TEST(StackWatch, SaysNothingWhereNothingHangs) {
  testing::internal::CaptureStderr();
  { StackWatch watch(std::chrono::hours(1)); }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace asyra
