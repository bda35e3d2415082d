#include "gmock/gmock.h"
#include "ir/builder.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

SimResult SimulateText(std::string_view text) {
  Program program = Parse(text);
  return Simulate(program, CostModel(TestMachine(), program.mesh),
                  {.contention = false});
}

// f32[500] is 2000 bytes.
TEST(Memory, FreesOperandsAfterTheirLastUse) {
  SimResult result = SimulateText(R"(asyra 1 local
program @f(%x: f32[500], %w: f32[500] weight) -> (f32[500]) {
  %a = neg(%x) : f32[500]
  %b = neg(%a) : f32[500]
  %c = add(%a, %b) : f32[500]
  %d = add(%c, %w) : f32[500]
  return %d
})");
  // Inputs 4000, and at most %a, %b and %c.
  EXPECT_EQ(result.peak_bytes, 4000 + 6000);
  EXPECT_EQ(result.weight_bytes, 2000);
  ASSERT_EQ(result.memory.size(), 5u);
  EXPECT_EQ(result.memory[0].live_bytes, 6000);
  EXPECT_EQ(result.memory[1].live_bytes, 8000);
  EXPECT_EQ(result.memory[2].live_bytes, 10000);
  EXPECT_EQ(result.memory[3].live_bytes, 8000);  // %c and %d
  EXPECT_EQ(result.memory[4].live_bytes, 6000);  // %d stays
}

TEST(Memory, ShardsCountWhatOneDeviceHolds) {
  SimResult result = SimulateText(R"(asyra 1 local
mesh (dp=2, tp=2)
program @f(%x: f32[500@(dp,tp)]) -> (f32[500@dp]) {
  %a = all_gather(%x) {dim=0, axes=tp} : f32[500@dp]
  return %a
})");
  EXPECT_EQ(result.peak_bytes, 500 + 1000);
}

TEST(Memory, OperandsOfAStartLiveUntilItsWait) {
  SimResult result = SimulateText(R"(asyra 1 scheduled
mesh (tp=2)
program @f(%x: f32[500], %y: f32[500]) -> (f32[500], f32[500]) {
  %p = neg(%x) on compute : f32[500] partial(tp)
  %f = start all_reduce(%p) {axes=tp} on comm : future f32[500]
  %a = neg(%y) on compute : f32[500]
  %b = neg(%a) on compute : f32[500]
  %c = neg(%b) on compute : f32[500]
  %d = neg(%c) on compute : f32[500]
  %r = wait(%f) on compute : f32[500]
  return %r, %d
})");
  // At the last neg: two inputs, %p (done at 16 us, waited for at 20), the
  // sum, %c and %d.
  EXPECT_EQ(result.peak_bytes, 6 * 2000);
  EXPECT_EQ(result.memory.back().live_bytes, 4 * 2000);
  EXPECT_DOUBLE_EQ(result.memory.back().time_us, 20);
}

TEST(Memory, ViewsAreTheirOperandAndConstantsStay) {
  Builder builder({}, Stage::kLocal);
  ValueId x = builder.Input("x", Type(DType::kF32, {500}));
  ValueId a = ASYRA_VALUE(builder.AddOne("neg", {x}));
  ValueId view =
      ASYRA_VALUE(builder.AddOne("reshape", {a}, {{"shape", Ints{50, 10}}}));
  ValueId b = ASYRA_VALUE(builder.AddOne("neg", {view}));
  ValueId c = ASYRA_VALUE(builder.AddOne("neg", {b}));
  builder.Constant(Tensor(DType::kF32, {25}));
  builder.Output(c);
  SimResult result = Simulate(builder.program(), CostModel(TestMachine(), {}));
  // %x, the constant and two of the chain; %a lives until the view was read.
  EXPECT_EQ(result.peak_bytes, 2000 + 100 + 4000);
  ASSERT_EQ(result.memory.size(), 4u);
  EXPECT_DOUBLE_EQ(result.memory[2].time_us, 8);
  EXPECT_EQ(result.memory[2].live_bytes, result.peak_bytes);
}

TEST(Memory, AliasedOutputsAreWrittenInPlace) {
  SimResult result = SimulateText(R"(asyra 1 local
program @f(%x: f32[500], %m: f32[500] state) -> (f32[500]) {
  %a = add(%m, %x) : f32[500]
  return %a alias %m
})");
  EXPECT_EQ(result.peak_bytes, 4000);
  EXPECT_EQ(result.weight_bytes, 2000);
}

}  // namespace
}  // namespace asyra
