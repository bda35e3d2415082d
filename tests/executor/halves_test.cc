// Params that are stored in halves (ir/halves.h), as those see them who set and
// read them: plain f32.
#include "ir/halves.h"

#include "executor/cpu/cpu_device.h"
#include "executor/executor.h"
#include "executor/state_set.h"
#include "gmock/gmock.h"
#include "ir/support/status.h"
#include "ir/weights/weight_store.h"
#include "tests/executor/ranks.h"
#include "tests/ir/op_case.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

constexpr char kStep[] = R"(asyra 1 global
program @step(%w: f32[3] param, %m: f32[3] state, %v: f32[3] state, %g: f32[3],
    %rate: f32[], %n: i64[]) -> (bf16[3], f32[3], f32[3], f32[3]) {
  %u = upper_half(%w) : bf16[3]
  %y = neg(%u) : bf16[3]
  %w.new, %m.new, %v.new = adamw(%w, %g, %m, %v, %rate, %n) {in_halves=true} : f32[3], f32[3], f32[3]
  return %y, %w.new alias %w, %m.new alias %m, %v.new alias %v
}
)";
constexpr char kEvaluate[] = R"(asyra 1 global
program @evaluate(%w: f32[3] param) -> (bf16[3]) {
  %u = upper_half(%w) : bf16[3]
  %y = add(%u, %u) : bf16[3]
  return %y
}
)";
constexpr char kWhole[] = R"(asyra 1 global
program @whole(%w: f32[3] param) -> (f32[3]) {
  %y = add(%w, %w) : f32[3]
  return %y
}
)";
// Gives a value that others are set to.
constexpr char kMake[] = R"(asyra 1 global
program @make(%x: f32[3]) -> (f32[3]) {
  %y = add(%x, %x) : f32[3]
  return %y
}
)";
constexpr char kUnused[] = R"(asyra 1 global
program @unused(%w: f32[3] param, %x: f32[3]) -> (f32[3]) {
  %y = neg(%x) : f32[3]
  return %y
}
)";

Tensor Vector(std::initializer_list<double> values) {
  return Tensor::FromDoubles(DType::kF32, {static_cast<int64_t>(values.size())},
                             std::vector<double>(values));
}
// Between two bf16.
Tensor First() { return Vector({1.003, -2.005, 300.7}); }
Tensor Rounded(const Tensor& plain, double factor) {
  Tensor rounded =
      Tensor::FromDoubles(DType::kBF16, plain.shape(), plain.ToDoubles());
  for (int64_t i = 0; i < rounded.num_elements(); ++i) {
    rounded.Set(i, factor * rounded.Get(i));
  }
  return rounded;
}
std::vector<Tensor> StepInputs() {
  return {Vector({1, -1, 0}), Tensor::FromDoubles(DType::kF32, {}, {0.01}),
          Tensor::FromInts(DType::kI64, {}, {1})};
}

class StoredHalves : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Executor>> Prepare(
      const char* text, ExecutorOptions options = {}) {
    auto executor = ASYRA_VALUE(Executor::Load(Parse(text)));
    WeightStore store;
    store.Set("w", First());
    ASYRA_RETURN_IF_ERROR(
        executor->Prepare(*device_, nullptr, &store, options));
    return executor;
  }
  absl::StatusOr<std::unique_ptr<Executor>> PrepareShared(const char* text) {
    return Prepare(text, {.states = states_});
  }

  std::unique_ptr<Device> device_ = CreateCpuDevice();
  std::shared_ptr<StateSet> states_ = ASYRA_VALUE(StateSet::Create(*device_));
};

// The update moves by the rate against the sign of the gradient.
void ExpectStepped(const Tensor& w) {
  EXPECT_TRUE(Near(w, Vector({0.993, -1.995, 300.7}), 1e-6));
}

TEST_F(StoredHalves, AnExecutorsOwnAreReadAndSetAsF32) {
  auto step = ASYRA_VALUE(Prepare(kStep, {.debug_memory = true}));
  EXPECT_TRUE(SameBytes(ASYRA_VALUE(step->State("w")), First()));
  ASYRA_CHECK_OK(step->Step(StepInputs()));
  EXPECT_TRUE(SameBytes(ASYRA_VALUE(step->Output(0)), Rounded(First(), -1)));
  ExpectStepped(ASYRA_VALUE(step->Output(1)));
  ExpectStepped(ASYRA_VALUE(step->State("w")));
  ASYRA_CHECK_OK(step->SetState("w", Vector({5.001, 6, 7})));
  EXPECT_TRUE(SameBytes(ASYRA_VALUE(step->State("w")), Vector({5.001, 6, 7})));
}

TEST_F(StoredHalves, ProgramsShareThem) {
  auto step = ASYRA_VALUE(PrepareShared(kStep));
  auto evaluate = ASYRA_VALUE(PrepareShared(kEvaluate));
  ASYRA_CHECK_OK(PrepareShared(kUnused).status());
  ASYRA_CHECK_OK(evaluate->Step({}));
  EXPECT_TRUE(SameBytes(ASYRA_VALUE(evaluate->Output(0)), Rounded(First(), 2)));
  ASYRA_CHECK_OK(step->Enqueue(StepInputs()).status());
  Tensor w = ASYRA_VALUE(states_->Get("w"));
  ExpectStepped(w);
  ASYRA_CHECK_OK(evaluate->Step({}));
  EXPECT_TRUE(SameBytes(ASYRA_VALUE(evaluate->Output(0)), Rounded(w, 2)));

  auto make = ASYRA_VALUE(Prepare(kMake));
  ASYRA_CHECK_OK(make->Step({First()}));
  ASYRA_CHECK_OK(states_->Set("w", ASYRA_VALUE(make->OutputView("y"))));
  EXPECT_TRUE(
      SameBytes(ASYRA_VALUE(states_->Get("w")), ASYRA_VALUE(make->Output(0))));
}

TEST_F(StoredHalves, AProgramThatReadsThemWholeIsRefused) {
  ASYRA_CHECK_OK(PrepareShared(kStep).status());
  EXPECT_EQ(MessageOf(PrepareShared(kWhole).status()),
            "%w is stored in halves in @step, but not in @whole");
  states_ = ASYRA_VALUE(StateSet::Create(*device_));
  ASYRA_CHECK_OK(PrepareShared(kWhole).status());
  EXPECT_EQ(MessageOf(PrepareShared(kStep).status()),
            "%w is stored in halves in @step, but not in @whole");
}

// A view of the device's memory would show halves as floats.
TEST_F(StoredHalves, TheyHaveNoViewsOnTheDevice) {
  auto step = ASYRA_VALUE(Prepare(kStep));
  EXPECT_THAT(MessageOf(step->OutputView("w.new").status()),
              HasSubstr("%w.new is stored in halves"));
  EXPECT_TRUE(step->OutputView("m.new").ok());
}

// Of data too, where an op says so.
TEST_F(StoredHalves, InputsOfAStepAreStoredSo) {
  constexpr char kData[] = R"(asyra 1 global
program @data(%x: f32[3]) -> (bf16[3]) {
  %u = upper_half(%x) : bf16[3]
  %y = neg(%u) : bf16[3]
  return %y
}
)";
  auto data = ASYRA_VALUE(Prepare(kData));
  auto make = ASYRA_VALUE(Prepare(kMake));
  ASYRA_CHECK_OK(make->Step({First()}));
  DeviceView twice = ASYRA_VALUE(make->OutputView("y"));
  ASYRA_CHECK_OK(data->Step({First()}));
  EXPECT_TRUE(SameBytes(ASYRA_VALUE(data->Output(0)), Rounded(First(), -1)));
  ASYRA_CHECK_OK(data->EnqueueViews({twice}, nullptr).status());
  EXPECT_TRUE(SameBytes(ASYRA_VALUE(data->Output(0)), Rounded(First(), -2)));
  EXPECT_THAT(MessageOf(data->InputView("x").status()),
              HasSubstr("%x is stored in halves"));
}

}  // namespace
}  // namespace asyra
