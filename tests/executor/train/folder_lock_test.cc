#include "executor/train/folder_lock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

class Locks : public testing::Test {
 protected:
  Locks() { std::filesystem::create_directories(folder_); }
  ~Locks() override { std::filesystem::remove_all(folder_); }
  std::string file() const { return folder_ + "/" + kLockFile; }

  const std::string folder_ =
      fmt::format("{}/asyra_lock_{}", testing::TempDir(), ::getpid());
};

TEST_F(Locks, KeepOthersOutUntilTheyEnd) {
  {
    auto lock = ASYRA_VALUE(FolderLock::Take(folder_));
    EXPECT_EQ(lock->note(), "");
    absl::Status other = FolderLock::Take(folder_).status();
    EXPECT_THAT(other.message(),
                HasSubstr(fmt::format("{}: another run writes there: process "
                                      "{} on ",
                                      folder_, ::getpid())));
  }
  EXPECT_FALSE(std::filesystem::exists(file()));
  ASYRA_CHECK_OK(FolderLock::Take(folder_).status());
}

// What a killed process leaves is nobody's.
TEST_F(Locks, EndWithTheirProcess) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  pid_t child = ::fork();
  if (child == 0) {
    auto lock = FolderLock::Take(folder_);
    char done = lock.ok() ? 'y' : 'n';
    [[maybe_unused]] ssize_t written = ::write(ready[1], &done, 1);
    ::pause();
    ::_exit(0);
  }
  char done = 0;
  ASSERT_EQ(::read(ready[0], &done, 1), 1);
  EXPECT_EQ(done, 'y');
  EXPECT_THAT(FolderLock::Take(folder_).status().message(),
              HasSubstr(fmt::format("process {} on ", child)));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(file()));
  ASYRA_CHECK_OK(FolderLock::Take(folder_).status());
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(Locks, AreWaitedForOnRequest) {
  auto lock = ASYRA_VALUE(FolderLock::Take(folder_));
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    lock.reset();
  });
  ASYRA_CHECK_OK(FolderLock::Take(folder_, std::chrono::minutes(1)).status());
  ends.join();
}

// Many in turn, of which each has it alone.
TEST_F(Locks, HaveOneOwnerAtATime) {
  std::atomic<int> owners = 0, most = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 20; ++turn) {
        auto lock =
            ASYRA_VALUE(FolderLock::Take(folder_, std::chrono::minutes(1)));
        int now = ++owners;
        if (now > most) most = now;
        --owners;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
}

TEST_F(Locks, NeedAFolderThatCanBeWritten) {
  EXPECT_THAT(FolderLock::Take(folder_ + "/none").status().message(),
              HasSubstr("No such file or directory"));
  std::filesystem::create_directory(file());
  EXPECT_THAT(FolderLock::Take(folder_).status().message(),
              HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace asyra
