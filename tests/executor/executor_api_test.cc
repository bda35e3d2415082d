// The embedding API on one rank and on several: state, weights, outputs,
// several executors, planned offsets.
#include "executor/cpu/run_on_cpu.h"
#include "ir/interpreter.h"
#include "ir/support/status.h"
#include "tests/executor/ranks.h"

namespace asyra {
namespace {

Tensor Vector(std::initializer_list<double> values) {
  return Tensor::FromDoubles(DType::kF32, {static_cast<int64_t>(values.size())},
                             std::vector<double>(values));
}

class Api : public testing::Test {
 protected:
  std::unique_ptr<Executor> Prepared(const std::string& text,
                                     const ExecutorOptions& options = {}) {
    auto executor = ASYRA_VALUE(Executor::Load(Parse(text)));
    ASYRA_CHECK_OK(executor->Prepare(*device_, nullptr, nullptr, options));
    return executor;
  }
  std::unique_ptr<Device> device_ = CreateCpuDevice();
};

constexpr char kAccumulate[] = R"(asyra 1 global
program @accumulate(%sum: f32[2] state, %x: f32[2]) -> (f32[2]) {
  %next = add(%sum, %x) : f32[2]
  return %next alias %sum
}
)";

TEST_F(Api, StateGoesFromStepToStep) {
  auto executor = Prepared(kAccumulate, {.debug_memory = true});
  ASSERT_TRUE(executor->SetState("sum", Vector({10, 20})).ok());
  for (int step = 1; step <= 3; ++step) {
    ASSERT_TRUE(executor->Step({Vector({1, 2})}).ok());
    Tensor sum = ASYRA_VALUE(executor->Output(0));
    EXPECT_EQ(sum.Get(0), 10 + step);
    EXPECT_TRUE(SameBytes(sum, ASYRA_VALUE(executor->State("sum"))));
  }
  ASSERT_TRUE(executor->SetState("sum", Vector({0, 0})).ok());
  ASSERT_TRUE(executor->Step({Vector({1, 2})}).ok());
  EXPECT_EQ(ASYRA_VALUE(executor->Output(0)).Get(1), 2);
}

TEST_F(Api, InputsAndOutputsHaveNames) {
  auto executor = Prepared(R"(asyra 1 global
program @p(%a: f32[2], %b: f32[2]) -> (f32[2], f32[2]) {
  %c = sub(%a, %b) : f32[2]
  return %c as "difference", %a
}
)");
  EXPECT_EQ(executor->outputs(),
            std::vector<std::string_view>({"difference", "a"}));
  ASSERT_TRUE(
      executor->StepByName({{"b", Vector({1, 2})}, {"a", Vector({5, 5})}})
          .ok());
  EXPECT_EQ(ASYRA_VALUE(executor->Output("difference")).Get(1), 3);
  EXPECT_EQ(ASYRA_VALUE(executor->Output("a")).Get(1), 5);
  absl::Status none = executor->Output("c").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MessageOf(none),
            "no output is called 'c'; there are: difference, a");
  none = executor->StepByName({{"a", Vector({1, 2})}, {"x", Vector({1, 2})}});
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MessageOf(none), "no input is called 'x'; there are: a, b");
  EXPECT_EQ(MessageOf(executor->StepByName({{"a", Vector({1, 2})}})),
            "input %b is not given");
  EXPECT_EQ(MessageOf(executor->StepByName(
                {{"a", Vector({1, 2})}, {"a", Vector({1, 2})}})),
            "input %a is given twice");
  // The executor still works.
  EXPECT_TRUE(executor->Step({Vector({1, 2}), Vector({1, 2})}).ok());
}

TEST_F(Api, StatesMayTradePlaces) {
  auto executor = Prepared(R"(asyra 1 global
program @swap(%a: f32[2] state, %b: f32[2] state) -> (f32[2], f32[2], f32[2]) {
  %c = neg(%a) : f32[2]
  return %b alias %a, %a alias %b, %c
}
)",
                           {.debug_memory = true});
  ASSERT_TRUE(executor->SetState("a", Vector({1, 2})).ok());
  ASSERT_TRUE(executor->SetState("b", Vector({3, 4})).ok());
  ASSERT_TRUE(executor->Step({}).ok());
  EXPECT_EQ(ASYRA_VALUE(executor->State("a")).Get(0), 3);
  EXPECT_EQ(ASYRA_VALUE(executor->State("b")).Get(0), 1);
  EXPECT_EQ(ASYRA_VALUE(executor->Output(0)).Get(0), 3);
  EXPECT_EQ(ASYRA_VALUE(executor->Output(1)).Get(0), 1);
}

TEST_F(Api, AStateThatIsReadAfterItsNewValueIsKept) {
  auto executor = Prepared(R"(asyra 1 global
program @p(%s: f32[2] state, %x: f32[2]) -> (f32[2], f32[2], f32[2]) {
  %next = exp(%x) : f32[2]
  %old = neg(%s) : f32[2]
  return %next alias %s, %old, %s
}
)",
                           {.debug_memory = true});
  ASSERT_TRUE(executor->SetState("s", Vector({5, 6})).ok());
  ASSERT_TRUE(executor->Step({Vector({0, 0})}).ok());
  EXPECT_EQ(ASYRA_VALUE(executor->Output(1)).Get(0), -5);
  EXPECT_EQ(ASYRA_VALUE(executor->Output(2)).Get(0), 5);
  EXPECT_EQ(ASYRA_VALUE(executor->State("s")).Get(0), 1);
}

TEST_F(Api, ErrorsNameTheValue) {
  auto executor = Prepared(kAccumulate);
  auto message = [](const absl::Status& status) { return status.ToString(); };
  EXPECT_NE(
      message(executor->SetState("none", Vector({1}))).find("no input %none"),
      std::string::npos);
  EXPECT_NE(message(executor->SetState("x", Vector({1, 2})))
                .find("%x is given at each step"),
            std::string::npos);
  EXPECT_NE(message(executor->SetState("sum", Vector({1})))
                .find("input %sum is f32[1]"),
            std::string::npos);
  EXPECT_NE(message(executor->Output(0).status()).find("no step has run"),
            std::string::npos);
  EXPECT_NE(message(executor->Output(1).status())
                .find("output 1 of a program with 1"),
            std::string::npos);
}

TEST_F(Api, SeveralExecutorsShareADevice) {
  auto first = Prepared(kAccumulate), second = Prepared(kAccumulate);
  std::vector<Tensor> early = {Vector({1, 2})}, inputs = {Vector({5, 6})};
  ASSERT_TRUE(first->Start(early).ok());
  ASSERT_TRUE(second->Step(inputs).ok());
  ASSERT_TRUE(first->Finish().ok());
  EXPECT_EQ(ASYRA_VALUE(first->Output(0)).Get(0), 1);
  EXPECT_EQ(ASYRA_VALUE(second->Output(0)).Get(0), 5);
}

TEST_F(Api, InputsMayBeCopiedBeforeTheStep) {
  auto executor = Prepared(kAccumulate);
  EXPECT_EQ(MessageOf(executor->StartCopied()), "no inputs were copied");
  std::vector<Tensor> inputs = {Vector({5, 6})};
  ASSERT_TRUE(executor->CopyInputs(inputs).ok());
  inputs[0].Set(0, 50);  // it was copied
  ASSERT_TRUE(executor->StartCopied().ok());
  EXPECT_EQ(MessageOf(executor->CopyInputs(inputs)),
            "a step is running already");
  ASSERT_TRUE(executor->Finish().ok());
  EXPECT_EQ(ASYRA_VALUE(executor->Output(0)).Get(0), 5);
  // The step may have written over them.
  EXPECT_EQ(MessageOf(executor->StartCopied()), "no inputs were copied");
  std::vector<Tensor> wrong = {Vector({1})};
  EXPECT_THAT(std::string(MessageOf(executor->CopyInputs(wrong))),
              testing::HasSubstr("input %x is f32[1]"));
}

TEST_F(Api, PlannedOffsetsAreTaken) {
  auto executor = Prepared(R"(asyra 1 allocated
program @chain(%x: f32[64] at 0) -> (f32[64]) {
  %a = neg(%x) on compute : f32[64] at 256
  %b = neg(%a) on compute : f32[64] at 0
  return %b
}
)",
                           {.debug_memory = true});
  EXPECT_EQ(executor->memory().arena_bytes, 512);
  Tensor x(DType::kF32, {64});
  x.Set(63, 7);
  ASSERT_TRUE(executor->Step({x}).ok());
  EXPECT_EQ(ASYRA_VALUE(executor->Output(0)).Get(63), 7);
}

TEST_F(Api, ManyStepsGiveTheSame) {
  auto executor = Prepared(R"(asyra 1 scheduled
program @p(%x: f32[8, 8]) -> (f32[8, 8]) {
  %a = exp(%x) on one : f32[8, 8]
  %b = neg(%a) on two after(%a) : f32[8, 8]
  %c = matmul(%b, %a) on one after(%b) : f32[8, 8]
  return %c
}
)");
  Tensor x(DType::kF32, {8, 8});
  for (int i = 0; i < 64; ++i) x.Set(i, i * 0.01);
  std::vector<Tensor> inputs = {x};
  ASSERT_TRUE(executor->Step(inputs).ok());
  Tensor first = ASYRA_VALUE(executor->Output(0));
  for (int step = 0; step < 2000; ++step) {
    ASSERT_TRUE(executor->Step(inputs).ok());
  }
  EXPECT_TRUE(SameBytes(first, ASYRA_VALUE(executor->Output(0))));
}

TEST_F(Api, AProfileFollowsTheProgram) {
  auto executor = Prepared(R"(asyra 1 scheduled
program @p(%x: f32[8, 8]) -> (f32[8, 8]) {
  %a = exp(%x) on one : f32[8, 8]
  %v = reshape(%a) {shape=[8, 8]} on one : f32[8, 8]
  %b = neg(%v) on two after(%v) : f32[8, 8]
  return %b
}
)",
                           {.profile = true});
  ASSERT_TRUE(executor->Step({Tensor(DType::kF32, {8, 8})}).ok());
  std::vector<OpTime> times = executor->Profile();
  ASSERT_EQ(times.size(), 2u);  // the view takes no time
  EXPECT_EQ(times[0].op, 0);
  EXPECT_EQ(times[1].op, 2);
  EXPECT_GE(times[0].start_us, 0);
  EXPECT_GE(times[0].end_us, times[0].start_us);
  EXPECT_GE(times[1].start_us, times[0].end_us);
}

TEST(Weights, GivenSmallerThanTheirTypeAreZeroBeyond) {
  Program program = Parse(R"(asyra 1 local
mesh (tp=4)
program @logits(%x: f32[8, 16], %w: f32[16, 12@tp] weight padded from [16, 10])
    -> (f32[8, 12]) {
  %p = matmul(%x, %w) : f32[8, 12@tp]
  %y = all_gather(%p) {axes=tp, dim=1} : f32[8, 12]
  return %y
}
)");
  std::vector<Tensor> inputs = RandomInputs(program, 1, 4);
  ASSERT_EQ(inputs[1].size(1), 10);
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(program, inputs));
  auto got = RunOnCpu(program, inputs);
  ASSERT_TRUE(got.ok()) << got.status();
  for (int64_t i = 0; i < want[0].num_elements(); ++i) {
    EXPECT_NEAR(got->outputs[0].Get(i), want[0].Get(i), 1e-5);
  }
}

TEST_F(Api, FilesThatAreNoProgramsAreRefused) {
  std::string path = testing::TempDir() + "/executor_api_test.asyra";
  for (const char* text : {"", "asyra 2 global",
                           "asyra 1 global program @p(%x: f32[2]) -> (f32"}) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    ASSERT_NE(file, nullptr);
    std::fputs(text, file);
    std::fclose(file);
    absl::Status status = Executor::LoadFile(path).status();
    EXPECT_NE(status.ToString().find(path + ": line"), std::string::npos)
        << status;
  }
  EXPECT_FALSE(Executor::LoadFile(path + ".none").ok());
}

}  // namespace
}  // namespace asyra
