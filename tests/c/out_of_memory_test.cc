// Functions of asyra.h whose large allocations fail, each of them in turn: an
// error code, a message, and no exception, which C could not catch. Small ones
// do not fail here: the hash tables of Abseil are not made for it.
#include <cstdlib>
#include <fstream>
#include <functional>
#include <new>
#include <string>

#include "c/handles.h"
#include "gtest/gtest.h"
#include "tests/support/replace_new.h"
#include "tests/train/small_training.h"

namespace asyra {
namespace {

constexpr std::size_t kLarge = 64 << 10;

// Of this thread: large allocations that succeed before all others fail.
// Negative: none fails.
thread_local int64_t allocations_left = -1;

}  // namespace

void* AllocateForNew(std::size_t bytes, std::size_t alignment, void*) {
  if (bytes >= kLarge) {
    if (allocations_left == 0) throw std::bad_alloc();
    if (allocations_left > 0) --allocations_left;
  }
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes > 0 ? bytes : 1) != 0) {
    throw std::bad_alloc();
  }
  return memory;
}

namespace {

// Calls with 0, 1, ... large allocations that succeed, until the call does. How
// often it failed before.
int FailEach(const char* name, const std::function<asyra_status()>& call) {
  int failures = 0;
  for (int64_t count = 0;; ++count) {
    allocations_left = count;
    asyra_status code = call();
    allocations_left = -1;
    if (code == ASYRA_OK) return failures;
    ++failures;
    EXPECT_EQ(code, ASYRA_OUT_OF_MEMORY)
        << name << ", " << count << " allocations: " << asyra_last_error();
    EXPECT_NE(std::string(asyra_last_error()).find("out of memory"),
              std::string::npos)
        << name << ": " << asyra_last_error();
    if (testing::Test::HasFailure()) return failures;
  }
}

constexpr char kProgram[] = R"(asyra 1 global
program @f(%x: f32[256, 256], %w: f32[256, 256] state)
    -> (f32[256, 256], f32[256, 256]) {
  %y = matmul(%x, %w) : f32[256, 256]
  %next = add(%w, %w) : f32[256, 256]
  return %y, %next alias %w
}
)";
constexpr int64_t kBytes = 256 << 10;  // of each of them

class OutOfMemory : public testing::Test {
 protected:
  OutOfMemory() {
    EXPECT_EQ(asyra_rank_connect("cpu", &rank_), ASYRA_OK);
    std::ofstream(path("f.asyra")) << kProgram;
  }
  ~OutOfMemory() override { asyra_rank_free(rank_); }

  std::string path(const std::string& name) const {
    return folder_.path() + "/" + name;
  }

  ScratchFolder folder_{"c_api"};
  asyra_rank* rank_ = nullptr;
};

TEST_F(OutOfMemory, OfExecutorsIsACode) {
  asyra_program* program = nullptr;
  asyra_states* states = nullptr;
  asyra_executor* executor = nullptr;
  ASSERT_EQ(asyra_program_load(path("f.asyra").c_str(), nullptr, &program),
            ASYRA_OK);
  ASSERT_EQ(asyra_states_create(rank_, &states), ASYRA_OK);
  ASSERT_EQ(asyra_executor_create(rank_, program, states, &executor), ASYRA_OK);
  std::vector<float> x(kBytes / 4, 1), y(kBytes / 4);
  const void* inputs[] = {x.data()};
  ASSERT_EQ(asyra_executor_step(executor, inputs), ASYRA_OK);
  EXPECT_GT(FailEach("read_output",
                     [&] {
                       return asyra_executor_read_output(executor, 0, y.data(),
                                                         kBytes);
                     }),
            0);
  EXPECT_GT(FailEach("get_state",
                     [&] {
                       return asyra_executor_get_state(executor, "w", y.data(),
                                                       kBytes);
                     }),
            0);
  EXPECT_GT(
      FailEach("states_get",
               [&] { return asyra_states_get(states, "w", y.data(), kBytes); }),
      0);
  asyra_executor_free(executor);
  asyra_states_free(states);
  asyra_program_free(program);
}

TEST_F(OutOfMemory, OfTrainersIsACode) {
  std::string training = path("training");
  ASYRA_CHECK_OK(WriteTrainingFolder(SmallTraining(""), training));
  asyra_trainer* trainer = nullptr;
  EXPECT_GT(FailEach("create",
                     [&] {
                       return asyra_trainer_create(rank_, training.c_str(),
                                                   nullptr, &trainer);
                     }),
            0);
  std::string run = path("run"), weights = path("weights.safetensors");
  EXPECT_GT(FailEach("save",
                     [&] { return asyra_trainer_save(trainer, run.c_str()); }),
            0);
  EXPECT_EQ(asyra_trainer_finish(trainer), ASYRA_OK) << asyra_last_error();
  EXPECT_GT(
      FailEach("export",
               [&] { return asyra_trainer_export(trainer, weights.c_str()); }),
      0);
  // The run is as it was.
  std::vector<int64_t> ids(64, 1);
  const void* batch[] = {ids.data(), ids.data()};
  EXPECT_EQ(asyra_trainer_step(trainer, batch, 0.01), ASYRA_OK);
  EXPECT_EQ(asyra_trainer_finish(trainer), ASYRA_OK) << asyra_last_error();
  asyra_trainer_free(trainer);
}

TEST(FailedChecks, AreCodes) {
  EXPECT_EQ(c::Guarded({},
                       [] {
                         ASYRA_CHECK(1 + 1 == 3);
                         return absl::OkStatus();
                       }),
            ASYRA_INTERNAL);
  EXPECT_NE(std::string(asyra_last_error()).find("check failed: 1 + 1 == 3"),
            std::string::npos)
      << asyra_last_error();
}

}  // namespace
}  // namespace asyra
