// Executors of one rank that share params and states.
#include "executor/state_set.h"

#include "executor/cpu/cpu_device.h"
#include "ir/support/status.h"
#include "ir/weights/weight_store.h"
#include "tests/executor/ranks.h"

namespace asyra {
namespace {

constexpr char kTrain[] = R"(asyra 1 global
program @train(%w: f32[2] param, %count: f32[2] state, %x: f32[2])
    -> (f32[2], f32[2]) {
  %next = add(%w, %x) : f32[2]
  %more = add(%count, %x) : f32[2]
  return %next alias %w, %more alias %count
}
)";
constexpr char kEvaluate[] = R"(asyra 1 global
program @evaluate(%w: f32[2] param, %scale: f32[2] weight) -> (f32[2]) {
  %y = mul(%w, %scale) : f32[2]
  return %y
}
)";

Tensor Vector(std::initializer_list<double> values) {
  return Tensor::FromDoubles(DType::kF32, {static_cast<int64_t>(values.size())},
                             std::vector<double>(values));
}

class States : public testing::Test {
 protected:
  void SetUp() override {
    store_.Set("w", Vector({1, 2}));
    store_.Set("scale", Vector({10, 100}));
  }
  absl::Status Prepare(const char* text, const WeightStore* weights,
                       ExecutorOptions options = {}) {
    options.states = states_;
    auto executor = ASYRA_VALUE(Executor::Load(Parse(text)));
    ASYRA_RETURN_IF_ERROR(
        executor->Prepare(*device_, nullptr, weights, options));
    executors_.push_back(std::move(executor));
    return absl::OkStatus();
  }

  std::unique_ptr<Device> device_ = CreateCpuDevice();
  std::shared_ptr<StateSet> states_ = ASYRA_VALUE(StateSet::Create(*device_));
  WeightStore store_;
  std::vector<std::unique_ptr<Executor>> executors_;
};

TEST_F(States, OneExecutorReadsWhatAnotherHasWritten) {
  ASYRA_CHECK_OK(Prepare(kTrain, &store_));
  ASYRA_CHECK_OK(Prepare(kEvaluate, &store_, {.debug_memory = true}));
  for (int step = 1; step <= 3; ++step) {
    ASYRA_CHECK_OK(executors_[0]->Step({Vector({1, 1})}));
    ASYRA_CHECK_OK(executors_[1]->Step({}));
    Tensor y = ASYRA_VALUE(executors_[1]->Output(0));
    EXPECT_EQ(y.Get(0), 10 * (1 + step));
    EXPECT_EQ(y.Get(1), 100 * (2 + step));
  }
  EXPECT_EQ(ASYRA_VALUE(states_->Get("count")).Get(0), 3);
  ASYRA_CHECK_OK(states_->Set("w", Vector({7, 7})));
  ASYRA_CHECK_OK(executors_[1]->Step({}));
  EXPECT_EQ(ASYRA_VALUE(executors_[1]->Output(0)).Get(1), 700);
  ASYRA_CHECK_OK(executors_[1]->SetState("w", Vector({8, 8})));
  EXPECT_EQ(ASYRA_VALUE(executors_[0]->State("w")).Get(0), 8);
}

// Steps that were only enqueued are seen too, and in their order.
TEST_F(States, StepsInFlightKeepTheirOrder) {
  ASYRA_CHECK_OK(Prepare(kTrain, &store_));
  ASYRA_CHECK_OK(Prepare(kTrain, nullptr));
  for (int step = 0; step < 100; ++step) {
    ASYRA_CHECK_OK(executors_[step % 2]->Enqueue({Vector({1, 0})}).status());
  }
  EXPECT_EQ(ASYRA_VALUE(states_->Get("w")).Get(0), 101);
}

TEST_F(States, MemoryIsReservedOnce) {
  ASYRA_CHECK_OK(Prepare(kTrain, &store_));
  EXPECT_EQ(states_->bytes(), 2 * kDeviceAlignment);
  const void* w = states_->Find("w")->data;
  ASYRA_CHECK_OK(Prepare(kEvaluate, &store_));
  EXPECT_EQ(states_->bytes(), 3 * kDeviceAlignment);
  EXPECT_EQ(states_->Find("w")->data, w);
  EXPECT_EQ(executors_[1]->memory().resident_bytes, 0);
  EXPECT_EQ(executors_[1]->memory().shared_bytes, 16);
}

TEST_F(States, AValueThatIsThereNeedsNoData) {
  ASYRA_CHECK_OK(Prepare(kEvaluate, &store_));
  ASYRA_CHECK_OK(states_->Set("w", Vector({5, 5})));
  ASYRA_CHECK_OK(Prepare(kTrain, &store_));  // does not begin anew
  EXPECT_EQ(ASYRA_VALUE(states_->Get("w")).Get(0), 5);
  ASYRA_CHECK_OK(Prepare(kTrain, nullptr));
  // A failed Prepare does not count as data.
  states_ = ASYRA_VALUE(StateSet::Create(*device_));
  EXPECT_EQ(MessageOf(Prepare(kTrain, nullptr)), "weight %w has no data");
  EXPECT_EQ(MessageOf(Prepare(kTrain, nullptr)), "weight %w has no data");
  ASYRA_CHECK_OK(
      Prepare(kTrain, nullptr, ExecutorOptions{.params_are_set_later = true}));
}

// Between the steps that were started before and those after.
TEST_F(States, ClearIsInOrderWithSteps) {
  ASYRA_CHECK_OK(Prepare(kTrain, &store_));
  for (int step = 0; step < 10; ++step) {
    if (step % 5 == 0) ASYRA_CHECK_OK(states_->Clear({"count"}));
    ASYRA_CHECK_OK(executors_[0]->Enqueue({Vector({1, 2})}).status());
  }
  EXPECT_TRUE(SameBytes(ASYRA_VALUE(states_->Get("count")), Vector({5, 10})));
  // No other is touched.
  EXPECT_TRUE(SameBytes(ASYRA_VALUE(states_->Get("w")), Vector({11, 22})));
  ASYRA_CHECK_OK(states_->Clear({"count", "w"}));
  EXPECT_EQ(ASYRA_VALUE(states_->Get("w")).Get(1), 0);
  EXPECT_EQ(MessageOf(states_->Clear({"x"})),
            "there is no state %x; there are: count, w");
}

TEST_F(States, AClearedValueNeedsNoData) {
  ASYRA_CHECK_OK(states_->Join(Parse(kTrain)));
  ASYRA_CHECK_OK(states_->Clear({"w"}));
  ASYRA_CHECK_OK(Prepare(kTrain, nullptr));
  ASYRA_CHECK_OK(executors_[0]->Step({Vector({1, 2})}));
  EXPECT_TRUE(SameBytes(ASYRA_VALUE(states_->Get("w")), Vector({1, 2})));
}

// Values of a step, in the memory that another executor's had.
constexpr char kInArena[] = R"(asyra 1 global
program @in_arena(%w: f32[2] param, %x: f32[2]) -> (f32[2]) {
  %a = add(%w, %x) : f32[2]
  %b = mul(%a, %a) : f32[2]
  %y = sub(%b, %w) : f32[2]
  return %y
}
)";

TEST_F(States, ExecutorsUseTheArenaInTurn) {
  ASYRA_CHECK_OK(Prepare(kInArena, &store_));
  int64_t own = executors_[0]->memory().arena_bytes;
  ASSERT_GT(own, 0);
  int64_t before = states_->bytes();
  ASYRA_CHECK_OK(states_->ReserveArena(own));
  EXPECT_EQ(states_->bytes(), before + own);
  EXPECT_EQ(states_->arena_bytes(), own);
  ASYRA_CHECK_OK(Prepare(kInArena, nullptr));
  ASYRA_CHECK_OK(Prepare(kInArena, nullptr));
  for (int i : {1, 2}) EXPECT_EQ(executors_[i]->memory().arena_bytes, 0);
  // Each gives its own result while the next step of another is on its way.
  for (int step = 0; step < 100; ++step) {
    double x = step;
    Executor& one = *executors_[1 + step % 2];
    ASYRA_CHECK_OK(one.Step({Vector({x, 0})}));
    Tensor y = ASYRA_VALUE(one.Output(0));
    EXPECT_EQ(y.Get(0), (1 + x) * (1 + x) - 1);
    EXPECT_EQ(y.Get(1), 2);
  }
  EXPECT_EQ(MessageOf(states_->ReserveArena(own)),
            "ReserveArena is called twice");
}

TEST_F(States, AnArenaGrowsForTheFirstThatUsesIt) {
  ASYRA_CHECK_OK(states_->ReserveArena(1));
  ASYRA_CHECK_OK(Prepare(kInArena, &store_));
  EXPECT_EQ(executors_[0]->memory().arena_bytes, 0);
  int64_t grown = states_->arena_bytes();
  EXPECT_GT(grown, 1);
  // It is too small for another, which has its own.
  ASYRA_CHECK_OK(Prepare(R"(asyra 1 global
program @larger(%x: f32[2000]) -> (f32[2000]) {
  %a = add(%x, %x) : f32[2000]
  %b = mul(%a, %a) : f32[2000]
  %y = sub(%b, %a) : f32[2000]
  return %y
}
)",
                         nullptr));
  EXPECT_GT(executors_[1]->memory().arena_bytes, grown);
  EXPECT_EQ(states_->arena_bytes(), grown);
  ASYRA_CHECK_OK(executors_[0]->Step({Vector({1, 0})}));
  ASYRA_CHECK_OK(executors_[1]->Step({Tensor(DType::kF32, {2000})}));
  EXPECT_EQ(ASYRA_VALUE(executors_[0]->Output(0)).Get(0), 3);
}

TEST_F(States, ErrorsNameBoth) {
  ASYRA_CHECK_OK(Prepare(kTrain, &store_));
  EXPECT_EQ(MessageOf(Prepare(R"(asyra 1 global
program @other(%w: f32[3] param) -> (f32[3]) {
  %y = neg(%w) : f32[3]
  return %y
}
)",
                              &store_)),
            "%w is f32[3] in @other, f32[2] in @train");
  EXPECT_EQ(MessageOf(Prepare(R"(asyra 1 local
mesh (dp=1)
program @other(%w: f32[2] param) -> (f32[2]) {
  %y = neg(%w) : f32[2]
  return %y
}
)",
                              &store_)),
            "@other is for (dp=1), @train, whose states it shares, for ()");
  EXPECT_EQ(MessageOf(states_->Get("x").status()),
            "there is no state %x; there are: count, w");
  EXPECT_EQ(MessageOf(states_->Set("w", Vector({1}))),
            "state %w is f32[2] on a rank, f32[1] is given");
  auto device = CreateCpuDevice();
  auto executor = ASYRA_VALUE(Executor::Load(Parse(kTrain)));
  ExecutorOptions options{.states = states_};
  EXPECT_EQ(MessageOf(executor->Prepare(*device, nullptr, &store_, options)),
            "the states are on another device than the executor");
}

// Shards of ranks: what one program gathers is what another has left.
TEST(StatesOfRanks, AreTheirShards) {
  constexpr char kStep[] = R"(asyra 1 local
mesh (dp=2)
program @step(%w: f32[4@dp] param, %x: f32[4@dp]) -> (f32[4@dp]) {
  %next = add(%w, %x) : f32[4@dp]
  return %next alias %w
}
)";
  constexpr char kGather[] = R"(asyra 1 local
mesh (dp=2)
program @gather(%w: f32[4@dp] param) -> (f32[4]) {
  %y = all_gather(%w) {axes=dp, dim=0} : f32[4]
  return %y
}
)";
  WeightStore store;
  store.Set("w", Vector({0, 0, 0, 0}));
  auto device = CreateCpuDevice();
  ASYRA_CHECK_OK(RunLocalRanks(2, {}, [&](Communicator& world) -> absl::Status {
    auto states = ASYRA_VALUE(StateSet::Create(*device));
    ExecutorOptions options{.states = states};
    auto step = ASYRA_VALUE(Executor::Load(Parse(kStep)));
    auto gather = ASYRA_VALUE(Executor::Load(Parse(kGather)));
    ASYRA_RETURN_IF_ERROR(step->Prepare(*device, &world, &store, options));
    ASYRA_RETURN_IF_ERROR(gather->Prepare(*device, &world, nullptr, options));
    double mine = static_cast<double>(world.rank()) + 1;
    for (int i = 1; i <= 20; ++i) {
      ASYRA_RETURN_IF_ERROR(step->Enqueue({Vector({mine, mine})}).status());
      ASYRA_RETURN_IF_ERROR(gather->Step({}));
      Tensor whole = ASYRA_VALUE(gather->Output(0));
      EXPECT_EQ(whole.Get(0), i);
      EXPECT_EQ(whole.Get(3), 2 * i);
    }
    return absl::OkStatus();
  }));
}

}  // namespace
}  // namespace asyra
