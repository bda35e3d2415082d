// Checkpoints of ranks that fail, of disks that are full or read-only, and of
// many saves.
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <functional>

#include "executor/train/checkpoint_writer.h"
#include "gmock/gmock.h"
#include "tests/executor/ranks.h"
#include "tests/executor/train/checkpoint_case.h"
#include "tests/support/process_size.h"
#include "tests/support/sanitized.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::vector<CheckpointValue> Values(int64_t rows) {
  return {{"w", TypeOf(DType::kF32, {{rows, {0}}, {64, {}}}), {rows, 64}, true},
          {"w.m", TypeOf(DType::kF32, {{rows, {0}}, {64, {}}}), {rows, 64}},
          {"step", TypeOf(DType::kI64, {}), {}}};
}
const Mesh kOne = MeshOf({{"dp", 1}});
const Mesh kTwo = MeshOf({{"dp", 2}});

std::unique_ptr<CheckpointWriter> WriterOf(const std::string& directory,
                                           int64_t rows,
                                           const CheckpointOptions& options) {
  return ASYRA_VALUE(CheckpointWriter::Create(directory, Values(rows), kOne,
                                              nullptr, options));
}

// Save and Finish of one rank.
absl::Status SaveWhole(CheckpointWriter& writer, int64_t step) {
  ASYRA_RETURN_IF_ERROR(SaveStep(writer, kOne, 0, step));
  return writer.Finish();
}

// A write that fails on the thread behind, since no file may be longer than
// `bytes` from then on. In a process of its own.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit = {bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() { setrlimit(RLIMIT_FSIZE, &old_); }

 private:
  rlimit old_;
};

TEST(CheckpointFaults, AnErrorOfTheThreadComesWithTheNextCall) {
  ScratchFolder folder("faults");
  auto writer = WriterOf(folder.path(), 256, {});
  ASYRA_CHECK_OK(SaveWhole(*writer, 1));
  for (bool by_save : {true, false}) {
    std::optional<FileLimit> limit;
    ASYRA_CHECK_OK(writer->Save({.step = 2}, [&](const CheckpointValue& value) {
      limit.emplace(1000);  // the files have their sizes already
      return WholeOf(value, 2);
    }));
    absl::Status status =
        by_save ? SaveStep(*writer, kOne, 0, 3) : writer->Finish();
    EXPECT_THAT(std::string(MessageOf(status)),
                MatchesRegex(".*/step-00000002.partial-[0-9a-f]+/"
                             "model-00001-of-00001.safetensors: cannot write "
                             "[0-9]+ bytes at [0-9]+: File too large"));
    limit.reset();
    EXPECT_THAT(folder.Names(), ElementsAre("step-00000001"));
    EXPECT_THAT(writer->last_complete(), HasSubstr("step-00000001"));
  }
  // The run goes on, and so do its checkpoints.
  ASYRA_CHECK_OK(SaveWhole(*writer, 4));
  EXPECT_THAT(folder.Names(), ElementsAre("step-00000001", "step-00000004"));
}

TEST(CheckpointFaults, SpaceThatIsNotThereIsAnErrorOfSave) {
  ScratchFolder folder("faults");
  auto writer = WriterOf(folder.path(), 256, {});
  FileLimit limit(1000);
  EXPECT_THAT(std::string(MessageOf(SaveStep(*writer, kOne, 0, 1))),
              MatchesRegex(".*/model-00001-of-00001.safetensors: no space for "
                           "[0-9]+ bytes, [0-9]+ are free: File too large"));
  EXPECT_THAT(folder.Names(), ElementsAre());
}

TEST(CheckpointFaults, AllRanksGetTheErrorOfOne) {
  ScratchFolder folder("faults");
  auto results = OnRanks(2, {}, [&](Communicator& world) -> absl::Status {
    ASYRA_ASSIGN_OR_RETURN(
        auto writer,
        CheckpointWriter::Create(folder.path(), Values(8), kTwo, &world));
    absl::Status status = writer->Save(
        {.step = 1},
        [&](const CheckpointValue& value) -> absl::StatusOr<Tensor> {
          if (world.rank() == 1) return Invalid("the device is lost");
          return Shard(WholeOf(value, 1), value.type, kTwo, 0);
        });
    std::string whose = world.rank() == 1 ? "" : "rank 1 failed: ";
    EXPECT_EQ(MessageOf(status),
              whose +
                  "checkpoint of step 1 could not be written: %w: the device "
                  "is lost");
    status = writer->Save({.step = 2}, [&](const CheckpointValue& value) {
      Tensor part = Shard(WholeOf(value, 2), value.type, kTwo, 0);
      return world.rank() == 1 ? Tensor(DType::kF32, {3, 64}) : part;
    });
    EXPECT_EQ(MessageOf(status),
              whose +
                  "checkpoint of step 2 could not be written: %w is given as "
                  "f32[3,64], this rank's part is f32[4,64]");
    // And it goes on.
    ASYRA_RETURN_IF_ERROR(SaveStep(*writer, kTwo, world.rank(), 3));
    return writer->Finish();
  });
  for (const absl::Status& result : results) EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(folder.Names(), ElementsAre("step-00000003"));
}

TEST(CheckpointFaults, ARankThatLeavesEndsTheOthersAndLeavesNoCheckpoint) {
  ScratchFolder folder("faults");
  auto results =
      OnRanks(2, {.timeout_s = 0.3}, [&](Communicator& world) -> absl::Status {
        ASYRA_ASSIGN_OR_RETURN(
            auto writer,
            CheckpointWriter::Create(folder.path(), Values(8), kTwo, &world));
        // Rank 1 says so before it has written anything.
        if (world.rank() == 1) return Invalid("it leaves");
        return SaveStep(*writer, kTwo, 0, 1);
      });
  EXPECT_EQ(MessageOf(results[1]), "it leaves");
  EXPECT_FALSE(results[0].ok());
  EXPECT_THAT(folder.Names(), ElementsAre());
}

// Writers that are destroyed without Finish do not wait for other ranks.
TEST(CheckpointFaults, AWriterThatIsDestroyedGivesUp) {
  ScratchFolder folder("faults");
  auto results = OnRanks(2, {}, [&](Communicator& world) -> absl::Status {
    ASYRA_ASSIGN_OR_RETURN(
        auto writer,
        CheckpointWriter::Create(folder.path(), Values(512), kTwo, &world));
    return SaveStep(*writer, kTwo, world.rank(), 1);
  });
  for (const absl::Status& result : results) EXPECT_TRUE(result.ok()) << result;
  // It was complete before, or is none.
  auto all = ASYRA_VALUE(ListCheckpoints(folder.path()));
  for (const std::string& one : all) {
    ExpectHolds(ASYRA_VALUE(Checkpoint::Open(one)), Values(512), kTwo, 1);
  }
  EXPECT_EQ(folder.Names().size(), all.size());
}

TEST(CheckpointFaults, ADirectoryThatCannotBeMadeIsNamed) {
  ScratchFolder folder("faults");
  std::string file = folder.path() + "/file";
  std::ofstream(file) << "text";
  auto created =
      CheckpointWriter::Create(file + "/run", Values(8), kOne, nullptr);
  EXPECT_THAT(std::string(MessageOf(created.status())),
              HasSubstr(file + "/run: Not a directory"));
}

// Runs `body` in a process of its own with a file system of `bytes` that only
// it sees, mounted at `path`. False where that is not permitted.
bool OnSmallDisk(const std::string& path, int64_t bytes,
                 const std::function<void()>& body) {
  constexpr int kNotPermitted = 77;
  pid_t child = fork();
  if (child == 0) {
    std::string size = fmt::format("size={}", bytes);
    bool mounted =
        (unshare(CLONE_NEWNS) == 0 ||
         unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        mount("none", path.c_str(), "tmpfs", 0, size.c_str()) == 0;
    if (!mounted) _exit(kNotPermitted);
    body();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotPermitted) return false;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "the process ended with " << status;
  return true;
}

// Whatever place is missing for: data, an index, a name.
TEST(CheckpointFaults, AFullDiskIsAnErrorThatNamesTheFile) {
  ScratchFolder folder("faults");
  constexpr int64_t kPage = 4096;
  for (int64_t pages = 1; pages <= 24; ++pages) {
    bool permitted = OnSmallDisk(folder.path(), pages * kPage, [&] {
      auto writer = CheckpointWriter::Create(folder.path(), Values(64), kOne,
                                             nullptr, {.max_file_bytes = 100});
      absl::Status first =
          writer.ok() ? SaveWhole(**writer, 1) : writer.status();
      absl::Status second =
          writer.ok() ? SaveWhole(**writer, 2) : writer.status();
      std::vector<std::string> complete;
      for (int64_t step : {1, 2}) {
        absl::Status& status = step == 1 ? first : second;
        if (status.ok()) {
          complete.push_back(fmt::format("step-0000000{}", step));
          auto opened = Checkpoint::Open(folder.path() + "/" + complete.back());
          ExpectHolds(ASYRA_VALUE(opened), Values(64), kOne, step);
        } else {
          EXPECT_THAT(std::string(MessageOf(status)),
                      ::testing::AllOf(HasSubstr(folder.path() + "/"),
                                       HasSubstr("No space left on device")));
        }
      }
      EXPECT_EQ(folder.Names(), complete);
      EXPECT_TRUE(pages != 8 || !first.ok());
      EXPECT_TRUE(pages != 24 || (first.ok() && !second.ok()));
      // When there is place again, the run can save.
      if (first.ok() && !second.ok()) {
        std::filesystem::remove_all(folder.path() + "/step-00000001");
        ASYRA_CHECK_OK(SaveWhole(**writer, 3));
      }
    });
    if (!permitted) GTEST_SKIP() << "SKIP: no file system may be mounted";
  }
}

TEST(CheckpointFaults, AReadOnlyFolderIsAnErrorThatNamesIt) {
  ScratchFolder folder("faults");
  bool permitted = OnSmallDisk(folder.path(), 1 << 20, [&] {
    auto remount = [&](unsigned long flags) {
      ASSERT_EQ(mount("none", folder.path().c_str(), "tmpfs",
                      MS_REMOUNT | flags, nullptr),
                0);
    };
    auto writer = WriterOf(folder.path(), 64, {});
    ASYRA_CHECK_OK(SaveWhole(*writer, 1));
    writer.reset();  // with its lock, which is open for writing
    remount(MS_RDONLY);
    auto again =
        CheckpointWriter::Create(folder.path(), Values(64), kOne, nullptr);
    EXPECT_THAT(std::string(MessageOf(again.status())),
                ::testing::AllOf(HasSubstr(folder.path()),
                                 HasSubstr("Read-only file system")));
    auto other = CheckpointWriter::Create(folder.path() + "/new", Values(64),
                                          kOne, nullptr);
    EXPECT_EQ(MessageOf(other.status()),
              folder.path() + "/new: Read-only file system");
    // What is there can be read.
    auto opened = Checkpoint::Open(folder.path() + "/step-00000001");
    ExpectHolds(ASYRA_VALUE(opened), Values(64), kOne, 1);
    remount(0);
    ASYRA_CHECK_OK(SaveWhole(*WriterOf(folder.path(), 64, {}), 3));
  });
  if (!permitted) GTEST_SKIP() << "SKIP: no file system may be mounted";
}

TEST(CheckpointFaults, ManySavesLeaveNothingBehind) {
  ScratchFolder folder("faults");
  // Where the disk is memory, if there is one: this is not about the disk.
  std::string shared = fmt::format("/dev/shm/asyra_{}", getpid());
  std::error_code error;
  bool in_memory = std::filesystem::create_directory(shared, error);
  std::string directory = in_memory ? shared : folder.path();
  {
    auto writer = WriterOf(directory, 2, {.keep = 2});
    ProcessSize before;
    const int64_t saves = in_memory && !kSanitized ? 10000 : 1000;
    for (int64_t step = 1; step <= saves; ++step) {
      ASSERT_TRUE(SaveStep(*writer, kOne, 0, step).ok());
      if (step != 100) continue;
      ASYRA_CHECK_OK(writer->Finish());
      before = ProcessSize::Now();
    }
    ASYRA_CHECK_OK(writer->Finish());
    ExpectHasNotGrown(ProcessSize::Now(), before);
    EXPECT_EQ(ProcessSize::EntriesIn(directory), 3);  // with the lock
  }
  std::filesystem::remove_all(shared, error);
}

}  // namespace
}  // namespace asyra
