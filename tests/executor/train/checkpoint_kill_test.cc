// A run that is killed (SIGKILL) at random moments: the newest complete
// checkpoint always loads, and is never older than what the run knew to be
// complete. ASYRA_KILLS sets how often, 20 by default.
#include <sys/wait.h>

#include <csignal>
#include <random>
#include <thread>

#include "executor/train/checkpoint_writer.h"
#include "tests/executor/ranks.h"
#include "tests/executor/train/checkpoint_case.h"

namespace asyra {
namespace {

const Mesh kMesh = MeshOf({{"dp", 2}});
constexpr int64_t kRows = 512;

std::vector<CheckpointValue> Values() {
  return {
      {"w", TypeOf(DType::kF32, {{kRows, {}}, {64, {0}}}), {kRows, 64}, true},
      {"w.m", TypeOf(DType::kF32, {{kRows, {0}}, {64, {}}}), {kRows, 64}},
      {"w.v", TypeOf(DType::kF32, {{kRows, {}}, {64, {}}}), {kRows, 64}},
      {"step", TypeOf(DType::kI64, {}), {}}};
}

// Saves a checkpoint after the other, from the newest on, and says each step
// that is complete to `report`. Does not return.
[[noreturn]] void SaveForever(const std::string& directory, int report) {
  auto body = [&](Communicator& world) -> absl::Status {
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
      if (world.rank() != 0 || step % 2 == 0) continue;
      // The one before is complete, since this one has begun.
      int64_t complete = step - 1;
      if (write(report, &complete, sizeof(complete)) < 0) _exit(1);
    }
  };
  absl::Status status = RunLocalRanks(2, {}, body);
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  _exit(1);
}

// What the process said last, 0 if nothing.
int64_t LastReported(int from) {
  int64_t step = 0, last = 0;
  while (read(from, &step, sizeof(step)) == sizeof(step)) last = step;
  return last;
}

TEST(CheckpointKill, TheNewestCompleteOneLoads) {
  const char* asked = std::getenv("ASYRA_KILLS");
  const int kills = asked == nullptr ? 20 : std::atoi(asked);
  ScratchFolder folder("kill");
  std::mt19937 random(1);
  std::uniform_int_distribution<int> wait_us(2'000, 150'000);
  int in_the_middle = 0;
  int64_t newest_step = 0;
  for (int i = 0; i < kills; ++i) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) SaveForever(folder.path(), ends[1]);
    close(ends[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(wait_us(random)));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << status;
    int64_t reported = LastReported(ends[0]);
    close(ends[0]);
    std::string newest = ASYRA_VALUE(NewestCheckpoint(folder.path(), nullptr));
    for (const std::string& name : folder.Names()) {
      in_the_middle += name.find(".partial-") != std::string::npos;
    }
    if (newest.empty()) {
      EXPECT_EQ(reported, 0);
      continue;
    }
    // All that are there are whole, not only the newest.
    for (const std::string& one : ASYRA_VALUE(ListCheckpoints(folder.path()))) {
      Checkpoint checkpoint = ASYRA_VALUE(Checkpoint::Open(one));
      ASYRA_CHECK_OK(checkpoint.CheckFits(Values(), ""));
      ExpectHolds(checkpoint, Values(), kMesh, checkpoint.info().step);
    }
    int64_t step = ASYRA_VALUE(Checkpoint::Open(newest)).info().step;
    EXPECT_GE(step, reported);
    EXPECT_GE(step, newest_step);
    newest_step = step;
  }
  std::printf("%d kills, %d in the middle of writing, %ld checkpoints\n", kills,
              in_the_middle, static_cast<long>(newest_step));
  EXPECT_GT(in_the_middle, kills / 4);
  EXPECT_GT(newest_step, 0);
}

}  // namespace
}  // namespace asyra
