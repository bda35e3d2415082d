#include "passes/shard/propagate_sharding.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "passes/shard/partition.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kMlp = R"(asyra 1 global
program @mlp(%x: f32[4, 8, 16], %up: f32[16, 32] weight,
    %down: f32[32, 16] weight) -> (f32[4, 8, 16]) {
  %h = matmul(%x, %up) : f32[4, 8, 32]
  %a = gelu(%h) : f32[4, 8, 32]
  %d = matmul(%a, %down) : f32[4, 8, 16]
  %y = add(%x, %d) : f32[4, 8, 16]
  return %y
}
)";

Program OnMesh(std::string_view text) {
  return ParseOn(text, {{"dp", 2}, {"tp", 4}});
}

Propagation Propagate(const Program& program, std::string_view seeds) {
  Pins pins = ASYRA_VALUE(ReadPins(seeds, program));
  return ASYRA_VALUE(PropagateSharding(program, pins));
}

// Inputs of the plan, and the text of what partition makes of it.
std::string Partitioned(const Program& program, const Propagation& result) {
  return ToString(ASYRA_VALUE(Partition(program, result.plan, {})));
}

TEST(PropagateSharding, WithoutSeedsAllIsWhole) {
  Program mlp = OnMesh(kMlp);
  Propagation result = Propagate(mlp, "");
  EXPECT_THAT(result.conflicts, IsEmpty());
  EXPECT_THAT(Partitioned(mlp, result),
              testing::Not(testing::ContainsRegex("@(dp|tp)")));
}

// One weight of a pair is enough: forward through gelu to the contraction, and
// backward to the other weight.
TEST(PropagateSharding, GoesForwardAndBackward) {
  Program mlp = OnMesh(kMlp);
  for (const char* seed : {"up=1@tp", "down=0@tp", "a=2@tp"}) {
    Propagation result = Propagate(mlp, seed);
    EXPECT_THAT(result.conflicts, IsEmpty());
    std::string text = Partitioned(mlp, result);
    EXPECT_THAT(text, HasSubstr("%up: f32[16, 32@tp] weight")) << seed;
    EXPECT_THAT(text, HasSubstr("%down: f32[32@tp, 16] weight")) << seed;
    EXPECT_THAT(text, HasSubstr("%d = matmul(%a, %down) : f32[4, 8, 16] "
                                "partial(tp)"));
  }
}

TEST(PropagateSharding, AxesOfSeveralSeedsMeet) {
  Program mlp = OnMesh(kMlp);
  Propagation result = Propagate(mlp, "x=0@dp;up=1@tp");
  EXPECT_THAT(result.conflicts, IsEmpty());
  EXPECT_THAT(Partitioned(mlp, result),
              HasSubstr("%a = gelu(%h) : f32[4@dp, 8, 32@tp]"));
}

// An axis cannot shard two factors of one op.
TEST(PropagateSharding, AConflictNamesOpFactorsAndValues) {
  Program mlp = OnMesh(kMlp);
  Propagation result = Propagate(mlp, "x=0@tp;up=1@tp");
  ASSERT_FALSE(result.conflicts.empty());
  const ShardingConflict& first = result.conflicts[0];
  EXPECT_EQ(first.op, 0);
  EXPECT_THAT(first.text,
              HasSubstr("matmul (%h): factor n over tp by %up gives way "
                        "to factor"));
}

// Two lists, none of which begins with the other, for one factor.
TEST(PropagateSharding, TheSeededListWins) {
  Program sum = OnMesh(R"(asyra 1 global
program @sum(%a: f32[8, 8], %b: f32[8, 8]) -> (f32[8, 8]) {
  %n = neg(%b) : f32[8, 8]
  %y = add(%a, %n) : f32[8, 8]
  return %y
}
)");
  Propagation result = Propagate(sum, "a=0@dp;b=0@tp;y=0@dp");
  std::string text = Partitioned(sum, result);
  EXPECT_THAT(text, HasSubstr("%a: f32[8@dp, 8]"));
  EXPECT_THAT(text, HasSubstr("%b: f32[8@tp, 8]"));
  EXPECT_THAT(text, HasSubstr(": f32[8@dp, 8]\n  return"));
  ASSERT_FALSE(result.conflicts.empty());
  EXPECT_THAT(result.conflicts[0].text, HasSubstr("gives way to dp"));
}

TEST(PropagateSharding, WhatMustBeWholeIsMadeWhole) {
  Program norm = OnMesh(R"(asyra 1 global
program @norm(%x: f32[8, 16], %w: f32[16] weight) -> (f32[8, 16]) {
  %y = rms_norm(%x, %w) {eps=0.1} : f32[8, 16]
  return %y
}
)");
  Propagation result = Propagate(norm, "x=0@dp,1@tp");
  ASSERT_EQ(result.conflicts.size(), 1u);
  EXPECT_THAT(result.conflicts[0].text,
              HasSubstr("over tp by %x must be whole"));
  EXPECT_THAT(Partitioned(norm, result),
              HasSubstr("%y = rms_norm(%x.all_gather, %w) {eps"));
}

}  // namespace
}  // namespace asyra
