// What goes wrong on one rank is a named error on every rank, nothing hangs,
// and afterwards all memory and all threads have been given back.
#include <chrono>
#include <filesystem>

#include "executor/cpu/run_on_cpu.h"
#include "gmock/gmock.h"
#include "ir/support/status.h"
#include "tests/executor/ranks.h"

namespace asyra {
namespace {

int ThreadsOfProcess() {
  std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

constexpr char kSum[] = R"(asyra 1 local
mesh (tp=4)
program @sum(%x: f32[8@tp], %t: f32[4] weight) -> (f32[], f32[4]) {
  %p = reduce_sum(%x) {dims=[0], keep=false} : f32[] partial(tp)
  %y = all_reduce(%p) {axes=tp} : f32[]
  %u = neg(%t) : f32[4]
  return %y, %u
}
)";

constexpr char kLookup[] = R"(asyra 1 local
mesh (tp=4)
program @lookup(%ids: i64[4@tp], %x: f32[4@tp]) -> (f32[], f32[4@tp, 2]) {
  %table = constant() {value=f32[2,2](1, 2, 3, 4)} : f32[2, 2]
  %rows = embedding(%table, %ids) : f32[4@tp, 2]
  %p = reduce_sum(%x) {dims=[0], keep=false} : f32[] partial(tp)
  %y = all_reduce(%p) {axes=tp} : f32[]
  return %y, %rows
}
)";

WeightStore Weights(float first) {
  WeightStore weights;
  weights.Set("t",
              Tensor::FromDoubles(DType::kF32, {4}, {first, 2.0, 3.0, 4.0}));
  return weights;
}

Tensor Ones(const Type& type) {
  Tensor ones(type.dtype, type.shape());
  for (int64_t i = 0; i < ones.num_elements(); ++i) ones.Set(i, 1);
  return ones;
}

std::vector<Tensor> InputsOf(const Executor& executor) {
  std::vector<Tensor> inputs;
  for (const auto& input : executor.inputs()) {
    inputs.push_back(Ones(input.local));
  }
  return inputs;
}

// Whether all that a device of so much memory has given was returned.
bool IsWhole(Device& device, int64_t bytes) {
  return device.Allocate(bytes).ok();
}

class Faults : public testing::Test {
 protected:
  // Threads that were joined leave the process a little later.
  void TearDown() override {
    EXPECT_TRUE(IsWhole(*device_, kBytes));
    auto late = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (ThreadsOfProcess() > threads_before_ &&
           std::chrono::steady_clock::now() < late) {
      std::this_thread::yield();
    }
    EXPECT_EQ(ThreadsOfProcess(), threads_before_);
  }

  // A rank that steps twice; hooks say what is wrong with it.
  struct Rank {
    std::string program = kSum;
    WeightStore weights = Weights(1);
    std::function<void(std::vector<Tensor>*)> change_inputs =
        [](std::vector<Tensor>*) {};
    std::function<absl::Status()> before_second_step = [] {
      return absl::OkStatus();
    };
    ExecutorOptions options;
  };

  absl::Status Run(Communicator& world, const Rank& rank) {
    auto executor = Executor::Load(Parse(rank.program));
    if (!executor.ok()) return executor.status();
    absl::Status status =
        (*executor)->Prepare(*device_, &world, &rank.weights, rank.options);
    if (!status.ok()) return status;
    std::vector<Tensor> inputs = InputsOf(**executor);
    status = (*executor)->Step(inputs);
    if (status.ok()) status = rank.before_second_step();
    if (!status.ok()) {
      world.Abort(status);
      return status;
    }
    rank.change_inputs(&inputs);
    return (*executor)->Step(inputs);
  }

  // Rank 2 is `odd`, the others are as they should be.
  std::vector<absl::Status> WithOdd(const Rank& odd, double timeout_s = 30) {
    return OnRanks(4, {.timeout_s = timeout_s}, [&](Communicator& world) {
      Rank even;
      even.program = odd.program.find("lookup") != std::string::npos
                         ? std::string(kLookup)
                         : std::string(kSum);
      absl::Status status = Run(world, world.rank() == 2 ? odd : even);
      others_.Count();
      return status;
    });
  }

  static constexpr int64_t kBytes = 1 << 20;
  int threads_before_ = ThreadsOfProcess();
  EndedRanks others_;  // than rank 2
  std::unique_ptr<Device> device_ =
      CreateCpuDevice({.threads_per_stream = 1, .memory_bytes = kBytes});
};

TEST_F(Faults, NoneIsNoError) {
  for (const absl::Status& status : WithOdd({})) EXPECT_TRUE(status.ok());
}

TEST_F(Faults, WouldBeSeenToLeak) {
  auto executor = ASYRA_VALUE(
      Executor::Load(Parse("asyra 1 global program @p(%x: f32[2]) -> (f32[2]) {"
                           " %y = exp(%x) : f32[2] return %y }")));
  ASSERT_TRUE(executor->Prepare(*device_, nullptr, nullptr).ok());
  EXPECT_FALSE(IsWhole(*device_, kBytes));
  EXPECT_GT(ThreadsOfProcess(), threads_before_);
}

TEST_F(Faults, AnotherProgram) {
  Rank odd;
  odd.program.replace(odd.program.find("neg(%t)"), 7, "abs(%t)");
  ExpectAll(WithOdd(odd),
            "ranks do not agree on the program: line 8 on rank 0 is "
            "'  %u = neg(%t) : f32[4]', on rank 2 '  %u = abs(%t) : f32[4]'");
}

TEST_F(Faults, AnotherCollective) {
  Rank odd;
  odd.program.replace(odd.program.find("{axes=tp}"), 9, "{axes=tp, ctas=2}");
  ExpectAll(WithOdd(odd),
            "ranks do not agree on the program: collective 1 over tp differs: "
            "rank 0 runs %y = all_reduce(%p) {axes=tp} : f32[], rank 2 runs "
            "%y = all_reduce(%p) {axes=tp, ctas=2} : f32[]; line 7");
}

TEST_F(Faults, AnotherOrder) {
  Rank odd;
  odd.program = R"(asyra 1 local
mesh (tp=4)
program @sum(%x: f32[8@tp], %t: f32[4] weight) -> (f32[], f32[4]) {
  %u = neg(%t) : f32[4]
  %p = reduce_sum(%x) {dims=[0], keep=false} : f32[] partial(tp)
  %y = all_reduce(%p) {axes=tp} : f32[]
  return %y, %u
}
)";
  ExpectAll(WithOdd(odd), "ranks do not agree on the program: line");
}

TEST_F(Faults, AnotherWeightFile) {
  Rank odd;
  odd.weights = Weights(1.5);
  ExpectAll(WithOdd(odd), "ranks do not agree on the weights: line 1 on rank");
}

TEST_F(Faults, AMissingWeight) {
  Rank odd;
  odd.weights = WeightStore();
  ExpectAll(WithOdd(odd), "'%t absent'");
}

TEST_F(Faults, ARankThatCannotPrepare) {
  std::vector<absl::Status> results =
      OnRanks(4, {.timeout_s = 30}, [&](Communicator& world) {
        auto small = CreateCpuDevice({.memory_bytes = 16});
        auto executor = ASYRA_VALUE(Executor::Load(Parse(kSum)));
        WeightStore weights = Weights(1);
        Device& device = world.rank() == 2 ? *small : *device_;
        absl::Status status = executor->Prepare(device, &world, &weights);
        executor.reset();
        EXPECT_TRUE(IsWhole(*small, 16));
        return status;
      });
  ExpectAll(results, "the arena");
  EXPECT_EQ(results[2].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(results[0].ToString().find("rank 2 failed"), std::string::npos);
}

TEST_F(Faults, ARankThatDiesBetweenSteps) {
  Rank odd;
  odd.before_second_step = [] { return absl::InternalError("lost power"); };
  ExpectAll(WithOdd(odd), "lost power");
}

TEST_F(Faults, AKernelThatFailsInMidStep) {
  Rank odd;
  odd.program = kLookup;
  odd.change_inputs = [](std::vector<Tensor>* inputs) {
    (*inputs)[0] = Tensor::FromInts(DType::kI64, {1}, {7});
  };
  std::vector<absl::Status> results = WithOdd(odd);
  ExpectAll(results, "%rows = embedding(%table, %ids)");
  ExpectAll(results, "index 7 is not in [-2, 2)");
}

TEST_F(Faults, ARankThatComesTooLate) {
  Rank odd;
  odd.before_second_step = [this] {
    others_.Await(3);
    return absl::OkStatus();
  };
  std::vector<absl::Status> results = WithOdd(odd, 2);
  ExpectAll(results,
            "%y = all_reduce(%p) {axes=tp} : f32[]: rank 2 did not begin the "
            "step within 2 s");
}

TEST_F(Faults, ARankThatNeverPrepares) {
  std::vector<absl::Status> results =
      OnRanks(2, {.timeout_s = 0.2}, [](Communicator& world) -> absl::Status {
        if (world.rank() == 1) return absl::InternalError("elsewhere");
        return world.Exchange("here").status();
      });
  EXPECT_NE(results[0].ToString().find("nothing was heard from rank 1"),
            std::string::npos)
      << results[0];
}

TEST_F(Faults, WrongInputs) {
  Rank odd;
  odd.change_inputs = [](std::vector<Tensor>* inputs) {
    (*inputs)[0] = Tensor(DType::kF32, {3});
  };
  ExpectAll(WithOdd(odd),
            "input %x is f32[3], a rank of the program takes f32[2]");
  odd.change_inputs = [](std::vector<Tensor>* inputs) {
    (*inputs)[0] = Tensor(DType::kI64, {2});
  };
  ExpectAll(WithOdd(odd), "input %x is i64[2]");
  odd.change_inputs = [](std::vector<Tensor>* inputs) { inputs->clear(); };
  ExpectAll(WithOdd(odd), "0 inputs are given, the program takes 1");
}

TEST_F(Faults, NotFinite) {
  Rank odd;
  odd.options.check_finite = true;
  odd.change_inputs = [](std::vector<Tensor>* inputs) {
    (*inputs)[0].Set(1, std::numeric_limits<double>::infinity());
  };
  ExpectAll(WithOdd(odd), "result %p: element 0 is inf");
}

TEST_F(Faults, AWorldOfAnotherSize) {
  ExpectAll(OnRanks(2, {}, [&](Communicator& world) { return Run(world, {}); }),
            "the program is for 4 devices, (tp=4), the world has 2 ranks");
}

TEST_F(Faults, AnExecutorThatFailedStepsNoMore) {
  auto executor = ASYRA_VALUE(
      Executor::Load(Parse("asyra 1 global program @p(%x: f32[2]) -> (f32[2]) {"
                           " %y = exp(%x) : f32[2] return %y }")));
  EXPECT_FALSE(executor->Step({}).ok());  // not prepared
  ASSERT_TRUE(executor->Prepare(*device_, nullptr, nullptr).ok());
  std::vector<Tensor> inputs = InputsOf(*executor);
  ASSERT_TRUE(executor->Step(inputs).ok());
  absl::Status first = executor->Step({});
  EXPECT_FALSE(first.ok());
  EXPECT_EQ(executor->Step(inputs), first);
}

TEST(FaultsOfData, AMaskNamesTheRowCountedOverAllRanks) {
  Program program = Parse(R"(asyra 1 local
mesh (dp=2)
program @lengths(%m: i64[4@dp, 3]) -> (i32[4]) {
  %part = mask_lengths(%m) {input="attention_mask"} : i32[4@dp]
  %y = all_gather(%part) {dim=0, axes=dp} : i32[4]
  return %y
}
)");
  auto run = [&](const std::vector<double>& mask) {
    return RunOnCpu(program, {Tensor::FromDoubles(DType::kI64, {4, 3}, mask)});
  };
  auto good = run({1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 1, 0});
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_THAT(good->outputs[0].ToInts(), testing::ElementsAre(3, 0, 1, 2));
  EXPECT_THAT(
      std::string(
          MessageOf(run({1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1}).status())),
      testing::HasSubstr("rank 1: %part = mask_lengths(%m) {input="
                         "\"attention_mask\"} : i32[4@dp]: row 3 of input "
                         "attention_mask has a 1 at place 1, behind a 0"));
}

}  // namespace
}  // namespace asyra
