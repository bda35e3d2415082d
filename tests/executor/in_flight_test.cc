// Steps that are enqueued before earlier ones have ended, and values in memory
// of the caller.
#include <chrono>
#include <cmath>

#include "executor/cpu/cpu_device.h"
#include "ir/support/status.h"
#include "tests/executor/ranks.h"

namespace asyra {
namespace {

constexpr char kProgram[] = R"(asyra 1 global
program @p(%sum: f32[] state, %x: f32[4]) -> (f32[4], f32[], f32[]) {
  %y = mul(%x, %x) : f32[4]
  %loss = reduce_sum(%y) {dims=[0], keep=false} : f32[]
  %next = add(%sum, %loss) : f32[]
  return %y as "squares", %loss as "loss", %next alias %sum
}
)";

Tensor Four(double value) {
  return Tensor::FromDoubles(DType::kF32, {4}, std::vector<double>(4, value));
}

double NowInSeconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class InFlight : public testing::Test {
 protected:
  absl::Status Prepare(const char* text, const ExecutorOptions& options = {}) {
    executor_ = ASYRA_VALUE(Executor::Load(Parse(text)));
    return executor_->Prepare(*device_, nullptr, nullptr, options);
  }
  std::unique_ptr<DeviceMemory> Memory(int64_t bytes) {
    return ASYRA_VALUE(device_->Allocate(bytes));
  }

  std::unique_ptr<Device> device_ = CreateCpuDevice();
  std::unique_ptr<Executor> executor_;
};

TEST_F(InFlight, EachStepKeepsItsInputsAndScalars) {
  ASYRA_CHECK_OK(Prepare(kProgram));
  EXPECT_EQ(executor_->scalars(), std::vector<std::string_view>({"loss"}));
  for (int64_t step = 0; step < 50; ++step) {
    Tensor x = Four(static_cast<double>(step));
    EXPECT_EQ(ASYRA_VALUE(executor_->Enqueue({x})), step);
    x.Set(0, -1e6);  // it was copied
    if (step == 0) continue;
    double before = static_cast<double>(step - 1);
    EXPECT_EQ(ASYRA_VALUE(executor_->Await(step - 1)),
              std::vector<double>({4 * before * before}));
  }
  EXPECT_EQ(ASYRA_VALUE(executor_->Await(49))[0], 4 * 49 * 49);
  EXPECT_EQ(ASYRA_VALUE(executor_->Output("squares")).Get(3), 49 * 49);
  // Beside steps one by one.
  ASYRA_CHECK_OK(executor_->Step({Four(1)}));
  EXPECT_EQ(ASYRA_VALUE(executor_->Enqueue({Four(2)})), 50);
  EXPECT_EQ(ASYRA_VALUE(executor_->Await(50))[0], 16);
}

TEST_F(InFlight, OnlyTheLastStepsAreKept) {
  ASYRA_CHECK_OK(Prepare(kProgram));
  EXPECT_EQ(MessageOf(executor_->Await(0).status()), "no step was enqueued");
  for (int step = 0; step < 5; ++step) {
    ASYRA_CHECK_OK(executor_->Enqueue({Four(1)}).status());
  }
  ASYRA_CHECK_OK(executor_->Await(3).status());
  EXPECT_EQ(MessageOf(executor_->Await(2).status()),
            "step 2 is none of the last 2 of 5");
  EXPECT_EQ(MessageOf(executor_->Await(5).status()),
            "step 5 is none of the last 2 of 5");
  ASYRA_CHECK_OK(executor_->Await(4).status());
}

TEST_F(InFlight, AStepTakesFromTheEndOfTheOneBefore) {
  ASYRA_CHECK_OK(Prepare(kProgram));
  EXPECT_EQ(MessageOf(executor_->SecondsOf(0).status()),
            "no step was enqueued");
  double begin = NowInSeconds(), sum = 0;
  for (int64_t step = 0; step < 20; ++step) {
    ASYRA_CHECK_OK(executor_->Enqueue({Four(1)}).status());
    if (step == 0) continue;
    ASYRA_CHECK_OK(executor_->Await(step - 1).status());
    absl::StatusOr<double> seconds = executor_->SecondsOf(step - 1);
    if (step == 1) {
      EXPECT_EQ(MessageOf(seconds.status()), "step 0 has none before it");
      continue;
    }
    EXPECT_GT(ASYRA_VALUE(seconds), 0);
    sum += *seconds;
  }
  EXPECT_LT(sum, NowInSeconds() - begin);
  EXPECT_EQ(MessageOf(executor_->SecondsOf(3).status()),
            "step 3 is none of the last 2 of 20");
}

TEST_F(InFlight, AnErrorOfAStepEndsAllLaterOnes) {
  ASYRA_CHECK_OK(Prepare(kProgram, {.check_finite = true}));
  ASYRA_CHECK_OK(executor_->Enqueue({Four(HUGE_VAL)}).status());
  absl::Status status = executor_->Await(0).status();
  EXPECT_THAT(std::string(MessageOf(status)), testing::HasSubstr("result %y"));
  EXPECT_EQ(executor_->Enqueue({Four(1)}).status(), status);
  EXPECT_EQ(executor_->Step({Four(1)}), status);
}

TEST_F(InFlight, ViewsAreWhereStepsReadAndWrite) {
  ASYRA_CHECK_OK(Prepare(kProgram));
  DeviceView x = ASYRA_VALUE(executor_->InputView("x"));
  DeviceView y = ASYRA_VALUE(executor_->OutputView("squares"));
  EXPECT_EQ(x.shape, Shape({4}));
  EXPECT_EQ(x.device, "cpu");
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 4; ++i) {
      static_cast<float*>(x.data)[i] = static_cast<float>(step + i);
    }
    int64_t number = ASYRA_VALUE(executor_->EnqueueViews({x}, nullptr));
    ASYRA_CHECK_OK(executor_->Await(number).status());
    EXPECT_EQ(static_cast<float*>(y.data)[3], (step + 3) * (step + 3));
  }
  // Memory from elsewhere is copied.
  std::vector<float> other = {1, 2, 3, 4};
  x.data = other.data();
  ASYRA_CHECK_OK(executor_->EnqueueViews({x}, nullptr).status());
  EXPECT_EQ(ASYRA_VALUE(executor_->Await(3))[0], 30);
  EXPECT_EQ(executor_->InputView("sum").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(executor_->OutputView("x").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(InFlight, ValuesMayLieInMemoryOfTheCaller) {
  auto in = Memory(16), out = Memory(16);
  ASYRA_CHECK_OK(Prepare(
      kProgram, {.debug_memory = true,
                 .memory = {{"x", {in->data(), DType::kF32, {4}}},
                            {"squares", {out->data(), DType::kF32, {4}}}}}));
  DeviceView x = ASYRA_VALUE(executor_->InputView("x"));
  EXPECT_EQ(x.data, in->data());
  EXPECT_EQ(ASYRA_VALUE(executor_->OutputView("squares")).data, out->data());
  static_cast<float*>(in->data())[2] = 3;
  ASYRA_CHECK_OK(executor_->EnqueueViews({x}, nullptr).status());
  ASYRA_CHECK_OK(executor_->Await(0).status());
  EXPECT_EQ(static_cast<float*>(out->data())[2], 9);
}

TEST_F(InFlight, MemoryOfTheCallerMustFit) {
  auto memory = Memory(256);
  auto* data = static_cast<std::byte*>(memory->data());
  auto refused = [&](const char* name, DeviceView view) {
    return std::string(
        MessageOf(Prepare(kProgram, {.memory = {{name, view}}})));
  };
  EXPECT_EQ(refused("z", {data, DType::kF32, {4}}),
            "no input or output is called 'z'");
  EXPECT_EQ(refused("x", {data, DType::kF32, {5}}),
            "input %x is f32[5], a rank of the program takes f32[4]");
  EXPECT_THAT(refused("x", {data + 4, DType::kF32, {4}}),
              testing::HasSubstr("no multiple of 64 bytes"));
  EXPECT_EQ(refused("sum", {data, DType::kF32, {}}),
            "%sum is a state: a StateSet places it");
  EXPECT_EQ(refused("next", {data, DType::kF32, {}}),
            "output 'next' replaces a state: a StateSet places it");
}

// Planned offsets, in-place results and views of what is outside.
TEST_F(InFlight, PlannedProgramsLeaveTheirOffsets) {
  auto in = Memory(256), out = Memory(256);
  ASYRA_CHECK_OK(
      Prepare(R"(asyra 1 allocated
program @chain(%x: f32[64] at 0) -> (f32[64]) {
  %v = reshape(%x) {shape=[8, 8]} on compute : f32[8, 8] at 0
  %a = neg(%v) on compute : f32[8, 8] at 0
  %r = reshape(%a) {shape=[64]} on compute : f32[64] at 0
  %b = exp(%r) on compute : f32[64] at 0
  return %b
}
)",
              {.memory = {{"x", {in->data(), DType::kF32, {64}}},
                          {"b", {out->data(), DType::kF32, {64}}}}}));
  static_cast<float*>(in->data())[63] = 2;
  DeviceView x = ASYRA_VALUE(executor_->InputView("x"));
  for (int step = 0; step < 2; ++step) {
    ASYRA_CHECK_OK(executor_->EnqueueViews({x}, nullptr).status());
  }
  ASYRA_CHECK_OK(executor_->Await(1).status());
  EXPECT_NEAR(static_cast<float*>(out->data())[63], std::exp(-2), 1e-6);
  EXPECT_EQ(static_cast<float*>(in->data())[63], 2);
}

}  // namespace
}  // namespace asyra
