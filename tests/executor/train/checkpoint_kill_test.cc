// A run that is killed (SIGKILL) at random moments: the newest complete
// checkpoint always loads, and is never older than what the run knew to be
// complete. ASYRA_KILLS sets how often, 20 by default.
#include <sys/wait.h>

#include <csignal>
#include <functional>
#include <random>
#include <thread>

#include "executor/tcp/socket.h"
#include "executor/tcp/tcp_world.h"
#include "executor/train/checkpoint_writer.h"
#include "tests/executor/ranks.h"
#include "tests/executor/train/checkpoint_case.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;

const Mesh kMesh = MeshOf({{"dp", 2}});
constexpr int64_t kRows = 512;

std::vector<CheckpointValue> Values() {
  return {
      {"w", TypeOf(DType::kF32, {{kRows, {}}, {64, {0}}}), {kRows, 64}, true},
      {"w.m", TypeOf(DType::kF32, {{kRows, {0}}, {64, {}}}), {kRows, 64}},
      {"w.v", TypeOf(DType::kF32, {{kRows, {}}, {64, {}}}), {kRows, 64}},
      {"step", TypeOf(DType::kI64, {}), {}}};
}

absl::Status Report(int to, int64_t step) {
  if (write(to, &step, sizeof(step)) == sizeof(step)) return absl::OkStatus();
  return Invalid("nobody reads what is reported");
}

// Saves one checkpoint after the other, from the newest on; rank 0 says to
// `report` which steps are complete. Returns with the first error.
absl::Status SaveForever(const std::string& directory, Communicator& world,
                         int report) {
  ASYRA_ASSIGN_OR_RETURN(std::string newest,
                         NewestCheckpoint(directory, &world));
  int64_t step = 0;
  if (!newest.empty()) {
    ASYRA_ASSIGN_OR_RETURN(Checkpoint last, Checkpoint::Open(newest));
    step = last.info().step;
  }
  ASYRA_ASSIGN_OR_RETURN(
      auto writer, CheckpointWriter::Create(
                       directory, Values(), kMesh, &world,
                       {.keep = 2, .max_file_bytes = int64_t{100} << 10}));
  while (true) {
    ASYRA_RETURN_IF_ERROR(SaveStep(*writer, kMesh, world.rank(), ++step));
    // The one before is complete, since this one has begun.
    if (world.rank() == 0) ASYRA_RETURN_IF_ERROR(Report(report, step - 1));
  }
}

// What the process said last, 0 if nothing.
int64_t LastReported(int from) {
  int64_t step = 0, last = 0;
  while (read(from, &step, sizeof(step)) == sizeof(step)) last = step;
  return last;
}

int Kills() {
  const char* asked = std::getenv("ASYRA_KILLS");
  return asked == nullptr ? 20 : std::atoi(asked);
}

class CheckpointKill : public ::testing::Test {
 protected:
  // A process that runs `body` with the end of the pipe to write to.
  pid_t Start(const std::function<absl::Status(int report)>& body) {
    pid_t child = fork();
    if (child != 0) return child;
    absl::Status status = body(pipe_[1]);
    // What the others see of it is in its status.
    bool expected = MessageOf(status).find("rank") != std::string::npos;
    if (!expected) std::fprintf(stderr, "%s\n", status.ToString().c_str());
    _exit(expected ? kNamesARank : 1);
  }

  void OpenPipe() { ASSERT_EQ(pipe(pipe_), 0); }
  // From nothing to as long as two checkpoints took at first.
  void WaitAWhile() {
    std::uniform_real_distribution<double> part(0, 1);
    std::this_thread::sleep_for(two_checkpoints_ * part(random_));
  }
  // Until the process has reported this step, or any at all.
  void WaitForReport(int64_t wanted) {
    int64_t step = -1;
    auto bytes = static_cast<ssize_t>(sizeof(step));
    while (step < wanted) ASSERT_EQ(read(pipe_[0], &step, sizeof(step)), bytes);
  }

  static int StatusOf(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }

  // What must be true whenever all processes have ended.
  void CheckFolder() {
    close(pipe_[1]);
    int64_t reported = LastReported(pipe_[0]);
    close(pipe_[0]);
    for (const std::string& name : folder_.Names()) {
      in_the_middle_ += name.find(".partial-") != std::string::npos;
    }
    int64_t step = 0;
    // All that are there are whole, not only the newest.
    for (const std::string& one :
         ASYRA_VALUE(ListCheckpoints(folder_.path()))) {
      Checkpoint checkpoint = ASYRA_VALUE(Checkpoint::Open(one));
      ASYRA_CHECK_OK(checkpoint.CheckFits(Values(), ""));
      step = checkpoint.info().step;
      ExpectHolds(checkpoint, Values(), kMesh, step);
    }
    EXPECT_GE(step, reported);
    EXPECT_GE(step, newest_step_);
    newest_step_ = step;
  }

  void CheckWhatWasTried(int kills) const {
    std::printf("%d kills, %d in the middle of writing, %ld checkpoints\n",
                kills, in_the_middle_, static_cast<long>(newest_step_));
    EXPECT_GT(in_the_middle_, kills / 4);
    EXPECT_GT(newest_step_, 0);
  }

  static constexpr int kNamesARank = 3;
  ScratchFolder folder_{"kill"};
  std::mt19937 random_{1};
  int pipe_[2];
  std::chrono::duration<double> two_checkpoints_{0};
  int in_the_middle_ = 0;
  int64_t newest_step_ = 0;
};

TEST_F(CheckpointKill, TheNewestCompleteOneLoads) {
  for (int i = 0; i < Kills(); ++i) {
    OpenPipe();
    pid_t child = Start([&](int report) {
      return RunLocalRanks(2, {}, [&](Communicator& world) {
        return SaveForever(folder_.path(), world, report);
      });
    });
    auto begin = Clock::now();
    if (i == 0) {
      WaitForReport(2);
      two_checkpoints_ = Clock::now() - begin;
    }
    WaitAWhile();
    kill(child, SIGKILL);
    int status = StatusOf(child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << status;
    CheckFolder();
  }
  CheckWhatWasTried(Kills());
}

// The ranks are processes, and one of them is killed: the other ends with an
// error that names it, and the next two go on from the newest checkpoint.
TEST_F(CheckpointKill, OneOfTheRanksIsKilled) {
  for (int i = 0; i < Kills() / 2; ++i) {
    OpenPipe();
    int port = ASYRA_VALUE(Listener::Create("127.0.0.1", 0))->port();
    std::vector<pid_t> ranks;
    for (int64_t rank = 0; rank < 2; ++rank) {
      ranks.push_back(Start([&](int report) -> absl::Status {
        ASYRA_ASSIGN_OR_RETURN(
            std::unique_ptr<Communicator> world,
            ConnectTcp({"127.0.0.1", port, rank, 2, /*timeout_s=*/20}));
        if (rank == 0) ASYRA_RETURN_IF_ERROR(Report(report, 0));
        absl::Status status = SaveForever(folder_.path(), *world, report);
        world->Abort(status);
        return status;
      }));
    }
    auto begin = Clock::now();
    WaitForReport(i == 0 ? 2 : 0);  // at least until they are connected
    if (i == 0) two_checkpoints_ = Clock::now() - begin;
    WaitAWhile();
    int victim = std::uniform_int_distribution<int>(0, 1)(random_);
    kill(ranks[victim], SIGKILL);
    auto killed = Clock::now();
    EXPECT_TRUE(WIFSIGNALED(StatusOf(ranks[victim])));
    int status = StatusOf(ranks[1 - victim]);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kNamesARank)
        << "the other ended with " << status;
    EXPECT_LT(Clock::now() - killed, std::chrono::seconds(25));
    CheckFolder();
  }
  std::printf("%ld checkpoints\n", static_cast<long>(newest_step_));
  EXPECT_GT(newest_step_, 0);
}

}  // namespace
}  // namespace asyra
