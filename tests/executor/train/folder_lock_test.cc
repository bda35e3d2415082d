#include "executor/train/folder_lock.h"

#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "executor/train/checkpoint_writer.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"

namespace {

// The error that flock returns so many times, as on a file system without
// locks.
std::atomic<int> flock_error = 0, flock_errors = 0;

}  // namespace

// Instead of the C library's.
extern "C" int flock(int fd, int operation) noexcept {
  if (flock_errors > 0) {
    --flock_errors;
    errno = flock_error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, fd, operation));
}

namespace asyra {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr int kAlways = 1 << 30;

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

// Nothing keeps a second one out; both are told, and nothing is left.
TEST_F(Locks, ThatAFileSystemDoesNotHaveAreANote) {
  flock_errors = kAlways;
  for (int error : {ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL}) {
    flock_error = error;
    auto first = ASYRA_VALUE(FolderLock::Take(folder_));
    auto second = ASYRA_VALUE(FolderLock::Take(folder_));
    for (const auto* lock : {first.get(), second.get()}) {
      EXPECT_EQ(lock->note(),
                fmt::format("{}: its file system has no locks ({}): nothing "
                            "keeps another run from writing there",
                            folder_, std::strerror(error)));
    }
    first.reset();
    second.reset();
    EXPECT_FALSE(std::filesystem::exists(file()));
  }
  flock_errors = 0;
}

TEST_F(Locks, ThatAFileSystemDoesNotHaveAreANoteOfACheckpoint) {
  flock_error = ENOLCK;
  flock_errors = kAlways;
  auto writer = CheckpointWriter::Create(folder_, {}, Mesh(), nullptr);
  flock_errors = 0;
  ASYRA_CHECK_OK(writer.status());
  EXPECT_THAT((*writer)->note(),
              HasSubstr("its file system has no locks (No locks available)"));
  writer->reset();
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(Locks, ThatFailAreAnError) {
  flock_error = EIO;
  flock_errors = 1;
  EXPECT_THAT(std::string(FolderLock::Take(folder_).status().message()),
              EndsWith("/.asyra-lock: cannot lock: Input/output error"));
  ASYRA_CHECK_OK(FolderLock::Take(folder_).status());
}

TEST_F(Locks, AreTakenAfterASignal) {
  flock_error = EINTR;
  flock_errors = 2;
  auto lock = ASYRA_VALUE(FolderLock::Take(folder_));
  EXPECT_EQ(lock->note(), "");
  EXPECT_EQ(flock_errors, 0);
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
