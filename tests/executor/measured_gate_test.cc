// Of programs that do the same, the one with the fastest measured steps is
// kept, the same on all ranks, and remembered. Time is what a test says that
// ops take, so that nothing depends on how busy the machine is.
#include "executor/measured_gate.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <random>
#include <set>

#include "executor/run.h"
#include "executor/tcp/socket.h"
#include "executor/tcp/tcp_world.h"
#include "gmock/gmock.h"
#include "ir/support/status.h"
#include "tests/executor/ranks.h"
#include "tests/support/forwarding.h"

namespace asyra {
namespace {

using testing::HasSubstr;

// What a launch of an op takes on a rank.
using Cost = std::function<double(std::string_view op, int64_t rank)>;

// Adds up what is launched while a step is recorded.
class CostKernel : public ForwardingKernel {
 public:
  CostKernel(std::unique_ptr<Kernel> kernel, double us, double* sum)
      : ForwardingKernel(std::move(kernel)), us_(us), sum_(sum) {}
  void Launch(const KernelArgs& args, Stream& stream) override {
    *sum_ += us_;
    ForwardingKernel::Launch(args, stream);
  }

 private:
  double us_;
  double* sum_;
};

class CostRecording : public Recording {
 public:
  CostRecording(std::unique_ptr<Recording> recording, double us, double* clock)
      : recording_(std::move(recording)), us_(us), clock_(clock) {}
  void Replay() override {
    *clock_ += us_;
    recording_->Replay();
  }

 private:
  std::unique_ptr<Recording> recording_;
  double us_;
  double* clock_;
};

// One rank's device, whose clock goes by `cost` and stands still between steps.
class CostDevice : public ForwardingDevice {
 public:
  CostDevice(Cost cost, int64_t rank, int64_t memory_bytes = 0)
      : ForwardingDevice(CreateCpuDevice(
            {.threads_per_stream = 1, .memory_bytes = memory_bytes})),
        cost_(std::move(cost)),
        rank_(rank) {}
  std::string identity() override { return identity_; }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareKernel(
      const KernelUse& use) override {
    ++kernels_;
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                           ForwardingDevice::PrepareKernel(use));
    return std::make_unique<CostKernel>(
        std::move(kernel), cost_(use.def().name, rank_), &recorded_us_);
  }
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      absl::Span<Stream* const> streams,
      std::function<void()> enqueue) override {
    recorded_us_ = 0;
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Recording> recording,
                           ForwardingDevice::Record(streams, enqueue));
    return std::make_unique<CostRecording>(std::move(recording), recorded_us_,
                                           &clock_us_);
  }

  double clock_us() const { return clock_us_; }
  int kernels() const { return kernels_; }
  void set_identity(std::string identity) { identity_ = std::move(identity); }

 private:
  Cost cost_;
  int64_t rank_;
  double recorded_us_ = 0, clock_us_ = 0;
  int kernels_ = 0;
  std::string identity_ = "a test's";
};

// So many neg, then so many abs, then an all_reduce; on 2 ranks.
Program Chain(int negs, int abses) {
  std::string text =
      "asyra 1 local\nmesh (tp=2)\n"
      "program @f(%x: f32[8@tp, 4]) -> (f32[4]) {\n";
  std::string last = "%x";
  for (int i = 0; i < negs + abses; ++i) {
    std::string next = fmt::format("%v{}", i);
    text += fmt::format("  {} = {}({}) : f32[8@tp, 4]\n", next,
                        i < negs ? "neg" : "abs", last);
    last = next;
  }
  text += fmt::format(
      "  %s = reduce_sum({}) {{dims=[0], keep=false}} : f32[4] partial(tp)\n"
      "  %y = all_reduce(%s) {{axes=tp}} : f32[4]\n  return %y\n}}\n",
      last);
  return Parse(text);
}

Tensor Ones(const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return Tensor::FromDoubles(DType::kF32, shape, std::vector<double>(count, 1));
}

class MeasuredGate : public testing::Test {
 protected:
  ~MeasuredGate() override { std::filesystem::remove_all(disk_.folder()); }

  // What each rank of two has decided between `programs`.
  absl::StatusOr<std::vector<GateResult>> Choose(
      const std::vector<Program>& programs, GateOptions options = {}) {
    std::vector<GateResult> results(2);
    kernels_ = 0;
    auto statuses = OnRanks(2, {}, [&](Communicator& world) -> absl::Status {
      CostDevice device(cost_, world.rank());
      device.set_identity(identity_);
      std::vector<GateProgram> given;
      for (const Program& one : programs) {
        given.push_back({std::string(1, static_cast<char>('a' + given.size())),
                         &one,
                         {Ones({4, 4})}});
      }
      GateOptions own = options;
      own.now_us = [&] { return device.clock_us(); };
      ASYRA_ASSIGN_OR_RETURN(
          results[world.rank()],
          ChooseByMeasuring(given, device, &world, nullptr, own));
      if (world.rank() == 0) kernels_ = device.kernels();
      return absl::OkStatus();
    });
    for (const absl::Status& status : statuses) {
      ASYRA_RETURN_IF_ERROR(status);
    }
    return results;
  }

  size_t Kept(const std::vector<Program>& programs, GateOptions options = {}) {
    std::vector<GateResult> results = ASYRA_VALUE(Choose(programs, options));
    EXPECT_EQ(results[0].kept, results[1].kept);
    return results[0].kept;
  }

  DiskCache disk_{fmt::format("{}asyra_gate_{}", testing::TempDir(), getpid())};
  std::string identity_ = "a test's";
  int kernels_ = 0;  // that rank 0 prepared in the last Choose
  // A neg takes rank 0 longest, an abs rank 1.
  Cost cost_ = [](std::string_view op, int64_t rank) {
    if (op == "neg") return rank == 0 ? 10.0 : 1.0;
    if (op == "abs") return rank == 1 ? 10.0 : 1.0;
    return 5.0;
  };
};

TEST_F(MeasuredGate, NeverKeepsASlowerProgram) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> count(0, 12);
  for (int row = 0; row < 20; ++row) {
    std::vector<Program> programs;
    std::vector<double> us;
    // The first of every other row is made bad on purpose.
    for (int i = 0; i < 2 + row % 4; ++i) {
      int negs = count(random), abses = count(random);
      if (i == 0 && row % 2 == 0) negs += 13;
      programs.push_back(Chain(negs, abses));
      us.push_back(5 + std::max(10 * negs + abses, negs + 10 * abses));
    }
    size_t kept = Kept(programs);
    EXPECT_EQ(us[kept], *std::min_element(us.begin(), us.end())) << row;
  }
}

TEST_F(MeasuredGate, TheSlowestRankCountsAndTheFirstOfEquals) {
  // By the sum over ranks, or on either rank alone, others would be kept.
  EXPECT_EQ(Kept({Chain(10, 0), Chain(0, 10), Chain(6, 6)}), 2);
  EXPECT_EQ(Kept({Chain(3, 1), Chain(3, 1), Chain(1, 3)}), 0);
  std::vector<GateResult> results =
      ASYRA_VALUE(Choose({Chain(10, 0), Chain(0, 2)}));
  for (const GateResult& result : results) {
    EXPECT_EQ(result.trials[0].median_us, 105);
    EXPECT_EQ(result.trials[1].min_us, 25);
    EXPECT_EQ(ToString(result),
              "kept b: median 25.0 us, 76.2 % less than a (105.0 us)");
  }
}

TEST_F(MeasuredGate, ASecondStartReadsTheDecision) {
  std::vector<Program> programs = {Chain(5, 0), Chain(1, 0)};
  GateOptions options{.cache = &disk_};
  std::vector<GateResult> first = ASYRA_VALUE(Choose(programs, options));
  EXPECT_FALSE(first[0].remembered);
  EXPECT_GT(kernels_, 0);
  std::vector<GateResult> second = ASYRA_VALUE(Choose(programs, options));
  EXPECT_EQ(kernels_, 0);
  for (const GateResult& result : second) {
    EXPECT_TRUE(result.remembered);
    EXPECT_EQ(result.kept, 1);
    EXPECT_EQ(result.trials[0].median_us, 55);
    EXPECT_THAT(ToString(result), HasSubstr("kept b (remembered): median 15"));
  }
  // Another program, other steps, another machine: another decision.
  programs[0] = Chain(0, 0);
  EXPECT_FALSE(ASYRA_VALUE(Choose(programs, options))[0].remembered);
  options.steps = 3;
  EXPECT_FALSE(ASYRA_VALUE(Choose(programs, options))[0].remembered);
  identity_ = "another";
  EXPECT_FALSE(ASYRA_VALUE(Choose(programs, options))[0].remembered);
  EXPECT_TRUE(ASYRA_VALUE(Choose(programs, options))[0].remembered);
  // The machine has changed in what its identity does not say.
  cost_ = [](std::string_view op, int64_t) { return op == "neg" ? 0. : 5.; };
  EXPECT_EQ(Kept(programs, options), 0);
  options.again = true;
  programs[0] = Chain(0, 2);
  EXPECT_FALSE(ASYRA_VALUE(Choose(programs, options))[0].remembered);
  options.again = false;
  EXPECT_TRUE(ASYRA_VALUE(Choose(programs, options))[0].remembered);
}

TEST_F(MeasuredGate, WhatIsRememberedWronglyIsMeasuredAgain) {
  std::vector<Program> programs = {Chain(5, 0), Chain(1, 0)};
  GateOptions options{.cache = &disk_};
  EXPECT_EQ(Kept(programs, options), 1);
  for (const auto& entry :
       std::filesystem::directory_iterator(disk_.folder())) {
    std::filesystem::resize_file(entry.path(), 60);
  }
  std::vector<GateResult> again = ASYRA_VALUE(Choose(programs, options));
  EXPECT_FALSE(again[0].remembered);
  EXPECT_EQ(again[1].kept, 1);
}

// Its first steps are slow on real machines.
TEST_F(MeasuredGate, WarmStepsDoNotCount) {
  CostDevice device(cost_, 0);
  Program program = Parse(R"(asyra 1 local
program @f(%x: f32[4]) -> (f32[4]) {
  %y = neg(%x) : f32[4]
  return %y
}
)");
  double extra_us = 0;
  int reads = 0;
  GateOptions options{.steps = 3, .warmup = 2};
  // Of the two steps that warm up, the second read is late.
  options.now_us = [&] {
    if (++reads <= 4 && reads % 2 == 0) extra_us += 1000;
    return device.clock_us() + extra_us;
  };
  GateProgram one{"one", &program, {Ones({4})}};
  GateResult result = ASYRA_VALUE(ChooseByMeasuring(
      absl::MakeConstSpan(&one, 1), device, nullptr, nullptr, options));
  EXPECT_EQ(result.trials[0].median_us, 10);
  EXPECT_EQ(reads, 10);
}

constexpr char kTrain[] = R"(asyra 1 local
program @train(%w: f32[4] param, %m: f32[4] state, %x: f32[4])
    -> (f32[4], f32[4]) {
  %next = add(%w, %x) : f32[4]
  %more = add(%m, %x) : f32[4]
  return %next alias %w, %more alias %m
}
)";

// Values of the caller stay as they are, whatever the trials do to their own.
TEST_F(MeasuredGate, TrialsChangeNoState) {
  CostDevice device(cost_, 0);
  Program program = Parse(kTrain);
  WeightStore weights;
  weights.Set("w", Ones({4}));
  auto states = ASYRA_VALUE(StateSet::Create(device));
  auto executor = ASYRA_VALUE(Executor::Load(program));
  ExecutorOptions of_executor{.states = states};
  ASYRA_CHECK_OK(executor->Prepare(device, nullptr, &weights, of_executor));
  ASYRA_CHECK_OK(executor->Step({Ones({4})}));
  std::vector<double> began;
  GateOptions options;
  options.set_states = [&](StateSet& trial) -> absl::Status {
    EXPECT_NE(&trial, states.get());
    ASYRA_ASSIGN_OR_RETURN(Tensor m, trial.Get("m"));
    began.push_back(m.Get(0));
    return trial.Set("m", Tensor::FromDoubles(DType::kF32, {4}, {7, 7, 7, 7}));
  };
  std::vector<GateProgram> programs = {{"a", &program, {Ones({4})}},
                                       {"b", &program, {Ones({4})}}};
  ASYRA_CHECK_OK(
      ChooseByMeasuring(programs, device, nullptr, &weights, options).status());
  EXPECT_THAT(began, testing::ElementsAre(0));
  EXPECT_EQ(ASYRA_VALUE(states->Get("w")).Get(0), 2);
  EXPECT_EQ(ASYRA_VALUE(states->Get("m")).Get(0), 1);
  EXPECT_EQ(weights.Find("w")->Get(0), 1);
}

std::string Wide(int64_t size) {
  return fmt::format(R"(asyra 1 local
program @f(%x: f32[4]) -> (f32[4]) {{
  %one = reduce_sum(%x) {{dims=[0], keep=false}} : f32[]
  %wide = broadcast(%one) {{shape=[{0}, 4]}} : f32[{0}, 4]
  %n = neg(%wide) : f32[{0}, 4]
  %y = reduce_sum(%n) {{dims=[0], keep=false}} : f32[4]
  return %y
}}
)",
                     size);
}

// One that needs too much is left out and says so; those that fit one at a time
// are measured one after the other.
TEST_F(MeasuredGate, WhatDoesNotFitIsNotKept) {
  constexpr int64_t kMemory = int64_t{1} << 20;
  std::vector<Program> programs = {Parse(Wide(1 << 20)), Parse(Wide(20000)),
                                   Parse(Wide(20001))};
  auto choose = [&](std::vector<int> which) {
    CostDevice device(cost_, 0, kMemory);
    std::vector<GateProgram> given;
    for (int i : which) {
      given.push_back(
          {fmt::format("program {}", i), &programs[i], {Ones({4})}});
    }
    GateOptions options;
    options.now_us = [&] { return device.clock_us(); };
    return ChooseByMeasuring(given, device, nullptr, nullptr, options);
  };
  GateResult result = ASYRA_VALUE(choose({0, 1, 2}));
  EXPECT_EQ(result.kept, 1);
  EXPECT_EQ(result.trials[2].median_us, 20 + 5);
  EXPECT_THAT(result.trials[0].left_out, HasSubstr("needs 32"));
  EXPECT_THAT(ToString(result),
              HasSubstr("program 0 was not measured: needs 32"));
  EXPECT_THAT(choose({0}).status().ToString(),
              HasSubstr("no program fits the memory: program 0 needs 32"));
}

// A step over a state of that type, and `negs` more ops.
Program Keeps(std::string_view type, int negs) {
  std::string text = fmt::format(
      "asyra 1 local\nmesh (tp=2)\n\n"
      "program @f(%m: {0} state, %x: f32[4, 4]) -> ({0}, f32[4, 4]) {{\n"
      "  %next = neg(%m) : {0}\n",
      type);
  std::string last = "%x";
  for (int i = 0; i < negs; ++i) {
    std::string next = fmt::format("%v{}", i);
    text += fmt::format("  {} = neg({}) : f32[4, 4]\n", next, last);
    last = next;
  }
  return Parse(text + "  return %next alias %m, " + last + "\n}\n");
}

// As those of two strategies are, which shard a weight differently.
TEST_F(MeasuredGate, ProgramsMayShardStatesDifferently) {
  std::set<std::string> types;
  std::mutex mutex;
  GateOptions options;
  options.set_states = [&](StateSet& trial) {
    std::lock_guard lock(mutex);
    types.insert(ToString(trial.Find("m")->type, trial.mesh()));
    return absl::OkStatus();
  };
  EXPECT_EQ(Kept({Keeps("f32[8@tp, 4]", 3), Keeps("f32[8, 4@tp]", 1),
                  Keeps("f32[8@tp, 4]", 2)},
                 options),
            1u);
  EXPECT_THAT(types, testing::ElementsAre("f32[8, 4@tp]", "f32[8@tp, 4]"));
}

// Then only one family of states is there at a time.
TEST_F(MeasuredGate, StatesThatDoNotFitTogetherComeOneAfterTheOther) {
  constexpr int64_t kMemory = int64_t{1} << 20;
  // 500 KiB on a rank, and as much for the other one.
  std::vector<Program> programs = {Keeps("f32[32000@tp, 8]", 2),
                                   Keeps("f32[32000, 8@tp]", 1)};
  std::vector<size_t> kept(2, 7);
  std::atomic<int> steps = 0;
  auto statuses = OnRanks(2, {}, [&](Communicator& world) -> absl::Status {
    CostDevice device(cost_, world.rank(), kMemory);
    std::vector<GateProgram> given;
    for (const Program& one : programs) {
      given.push_back({one.name, &one, {Ones({4, 4})}});
    }
    GateOptions own;
    own.now_us = [&] {
      ++steps;
      return device.clock_us();
    };
    // The second states come after all steps of the first ones.
    std::vector<int> began;
    own.set_states = [&](StateSet&) {
      began.push_back(steps);
      return absl::OkStatus();
    };
    ASYRA_ASSIGN_OR_RETURN(
        GateResult result,
        ChooseByMeasuring(given, device, &world, nullptr, own));
    kept[world.rank()] = result.kept;
    EXPECT_EQ(began.size(), 2);
    EXPECT_GT(began.back(), 2 * (own.steps + own.warmup));
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) ASYRA_CHECK_OK(status);
  EXPECT_THAT(kept, testing::Each(1));
}

TEST_F(MeasuredGate, ProgramsMustGoTogether) {
  EXPECT_THAT(Choose({}).status().ToString(),
              HasSubstr("there is no program to measure"));
  EXPECT_THAT(Choose({Chain(1, 1), Parse(kTrain)}).status().ToString(),
              HasSubstr("b is for "));
  CostDevice device(cost_, 0);
  Program a = Parse(kTrain), b = Parse(R"(asyra 1 local
program @train(%w: f32[8] param, %x: f32[8]) -> (f32[8]) {
  %next = add(%w, %x) : f32[8]
  return %next alias %w
}
)");
  std::vector<GateProgram> programs = {{"a", &a, {Ones({4})}},
                                       {"b", &b, {Ones({8})}}};
  EXPECT_THAT(
      ChooseByMeasuring(programs, device, nullptr, nullptr).status().ToString(),
      HasSubstr("%w is f32[8] in b, f32[4] in a"));
}

TEST_F(MeasuredGate, RanksMustMeasureTheSame) {
  std::vector<Program> programs = {Chain(1, 0), Chain(2, 0)};
  auto statuses = OnRanks(2, {}, [&](Communicator& world) -> absl::Status {
    CostDevice device(cost_, world.rank());
    GateProgram one{"one", &programs[world.rank()], {Ones({4, 4})}};
    return ChooseByMeasuring(absl::MakeConstSpan(&one, 1), device, &world,
                             nullptr)
        .status();
  });
  ExpectAll(statuses, "ranks do not agree on the programs to measure");
}

TEST_F(MeasuredGate, AFailureInATrialEndsAllRanks) {
  std::vector<Program> programs = {Chain(1, 0), Chain(2, 0)};
  auto statuses = OnRanks(2, {}, [&](Communicator& world) -> absl::Status {
    CostDevice device(cost_, world.rank());
    std::vector<GateProgram> given;
    for (const Program& one : programs) {
      // Rank 1 has inputs of another shape.
      given.push_back({"p", &one, {Ones({4 + world.rank(), 4})}});
    }
    return ChooseByMeasuring(given, device, &world, nullptr).status();
  });
  ExpectAll(statuses, "input %x is f32[5,4], a rank of the program takes");
}

// A control plane of processes decides as threads do. It carries no
// collectives: each rank computes alone.
class OfCpus : public ForwardingWorld {
 public:
  using ForwardingWorld::ForwardingWorld;
  std::string_view device() const override { return "cpu"; }
};

TEST_F(MeasuredGate, RanksThatSocketsConnectDecideTheSame) {
  auto alone = [](int negs, int abses) {
    std::string text =
        "asyra 1 local\nmesh (tp=2)\n"
        "program @f(%x: f32[8@tp, 4]) -> (f32[8@tp, 4]) {\n";
    std::string last = "%x";
    for (int i = 0; i < negs + abses; ++i) {
      std::string next = fmt::format("%v{}", i);
      text += fmt::format("  {} = {}({}) : f32[8@tp, 4]\n", next,
                          i < negs ? "neg" : "abs", last);
      last = next;
    }
    return Parse(text + "  return " + last + "\n}\n");
  };
  std::vector<Program> programs = {alone(10, 1), alone(0, 10), alone(6, 6)};
  int port = ASYRA_VALUE(Listener::Create("127.0.0.1", 0))->port();
  std::vector<absl::Status> statuses(2);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      statuses[rank] = [&]() -> absl::Status {
        ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> tcp,
                               ConnectTcp({"127.0.0.1", port, rank, 2, 30}));
        OfCpus world(*tcp);
        CostDevice device(cost_, rank);
        std::vector<GateProgram> given;
        for (const Program& one : programs) {
          given.push_back({"p", &one, {Ones({4, 4})}});
        }
        // Only the first rank's cache counts.
        GateOptions options{.cache = rank == 0 ? &disk_ : nullptr};
        options.now_us = [&] { return device.clock_us(); };
        for (bool remembered : {false, true}) {
          ASYRA_ASSIGN_OR_RETURN(
              GateResult result,
              ChooseByMeasuring(given, device, &world, nullptr, options));
          if (result.kept != 2 || result.remembered != remembered) {
            return Invalid("rank {}: {}", rank, ToString(result));
          }
        }
        return absl::OkStatus();
      }();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace asyra
