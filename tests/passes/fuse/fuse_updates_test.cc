// Where a joint update is put; what is joined: tests/fixtures/fuse_updates.
#include "passes/fuse/fuse_updates.h"

#include "absl/algorithm/container.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "simulator/replay/simulate.h"
#include "tests/support/costs.h"

namespace asyra {
namespace {

// Two updates, in front of which, between which and behind which are these.
Program TwoUpdates(const std::string& first, const std::string& between,
                   const std::string& behind) {
  std::string text = R"(asyra 1 scheduled
mesh (tp=2)
program @step(%a: f32[4194304] param, %am: f32[4194304] state,
    %av: f32[4194304] state, %b: f32[4194304] param, %bm: f32[4194304] state,
    %bv: f32[4194304] state, %ga: f32[4194304], %gb: f32[4194304],
    %x: f32[33554432@tp], %rate: f32[])
    -> (f32[4194304], f32[4194304], f32[4194304], f32[4194304], f32[4194304],
    f32[4194304], f32[33554432]) {
  %step = constant() {value=i64[](3)} on compute : i64[]
  %a.square = reduce_sum_square(%ga) {dims=[0], keep=false} on compute : f32[]
  %b.square = reduce_sum_square(%gb) {dims=[0], keep=false} on compute : f32[]
  %squares = add(%a.square, %b.square) on compute : f32[]
  %scale = reciprocal(%squares) on compute : f32[]
)" + first + R"(
  %a.new, %am.new, %av.new = adamw(%a, %ga, %am, %av, %rate, %step, %scale) on compute : f32[4194304], f32[4194304], f32[4194304]
)" + between + R"(
  %b.new, %bm.new, %bv.new = adamw(%b, %gb, %bm, %bv, %rate, %step, %scale) on compute : f32[4194304], f32[4194304], f32[4194304]
)" + behind + R"(
  return %a.new alias %a, %am.new alias %am, %av.new alias %av, %b.new alias %b, %bm.new alias %bm, %bv.new alias %bv, %y
}
)";
  return ASYRA_VALUE(ParseProgram(text));
}

constexpr char kStart[] =
    "  %future = start all_gather(%x) {dim=0, axes=tp} on tp : future "
    "f32[33554432]";
constexpr char kWait[] = "  %y = wait(%future) on compute : f32[33554432]";

// The position of the first op of a name.
std::ptrdiff_t PositionOf(const Program& program, std::string_view name) {
  auto found = absl::c_find_if(
      program.ops, [&](const Op& op) { return op.def->name == name; });
  EXPECT_NE(found, program.ops.end()) << name;
  return found - program.ops.begin();
}

Program Fused(Program program, const CostModel* costs) {
  EXPECT_EQ(FuseUpdates(&program, costs), 2);
  EXPECT_TRUE(Verify(program).ok()) << Verify(program);
  return program;
}

TEST(FuseUpdates, WhatIsWaitedForIsHidden) {
  Program program = TwoUpdates(kStart, kWait, "");
  CostModel costs = Costs(program);
  Program placed = Fused(program, &costs), last = Fused(program, nullptr);
  EXPECT_LT(PositionOf(placed, "multi_adamw"), PositionOf(placed, "wait"));
  EXPECT_GT(PositionOf(last, "multi_adamw"), PositionOf(last, "wait"));
  double before_us = Simulate(program, costs).makespan_us;
  EXPECT_LT(Simulate(placed, costs).makespan_us, before_us);
  EXPECT_GT(Simulate(last, costs).makespan_us, before_us);
}

// A gather that begins between them does not wait for both.
TEST(FuseUpdates, WhatOthersWaitForComesFirst) {
  Program program = TwoUpdates(
      "",
      "  %half = neg(%x) on compute : f32[33554432@tp]\n"
      "  %future = start all_gather(%half) {dim=0, axes=tp} on tp : future "
      "f32[33554432]",
      kWait);
  CostModel costs = Costs(program);
  Program placed = Fused(program, &costs);
  EXPECT_GT(PositionOf(placed, "multi_adamw"), PositionOf(placed, "neg"));
  EXPECT_LE(Simulate(placed, costs).makespan_us,
            Simulate(program, costs).makespan_us);
}

}  // namespace
}  // namespace asyra
