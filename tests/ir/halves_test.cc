#include "ir/halves.h"

#include <cmath>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ir/plans/planted_bug.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

uint32_t BitsOf(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
float FloatOf(uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Every upper half with lower halves around zero, around the middle and at the
// end: the upper half is what cast gives, and the value is what it was but for
// ties that round down, which lose one unit of the last place.
TEST(Halves, UpperIsTheRoundedValueAndBothAreTheWhole) {
  int ties = 0;
  for (uint32_t upper = 0; upper <= 0xffff; ++upper) {
    for (uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      uint32_t bits = upper << 16 | lower;
      float value = FloatOf(bits);
      Halves halves = ToHalves(value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(BFloat16ToFloat(halves.upper))) << bits;
        EXPECT_TRUE(std::isnan(FromHalves(halves))) << bits;
        continue;
      }
      ASSERT_EQ(halves.upper, FloatToBFloat16(value)) << bits;
      bool rounds_down = lower == 0x8000 && upper % 2 == 0;
      ties += rounds_down;
      ASSERT_EQ(BitsOf(FromHalves(halves)), bits - rounds_down) << bits;
      // What is stored once stays.
      Halves again = ToHalves(FromHalves(halves));
      ASSERT_EQ(again.upper, halves.upper) << bits;
      ASSERT_EQ(again.lower, halves.lower) << bits;
    }
  }
  EXPECT_EQ(ties, 0x8000 - 2 * 0x40);  // half of all but infinity and NaN
}

TEST(Halves, TensorsKeepTheirUpperHalvesFirst) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0, 0.02);
  std::vector<double> values(105);
  for (double& value : values) value = normal(random);
  Tensor plain = Tensor::FromDoubles(DType::kF32, {7, 15}, values);
  Tensor stored = StoredInHalves(plain);
  Tensor rounded = Tensor::View(DType::kBF16, {7, 15}, stored.data(), nullptr);
  EXPECT_TRUE(SameBytes(
      rounded, Tensor::FromDoubles(DType::kBF16, {7, 15}, plain.ToDoubles())));
  EXPECT_TRUE(SameBytes(LoadedFromHalves(stored), plain));
}

constexpr std::string_view kStep = R"(asyra 1 local
program @step(%w: f32[4] param, %m: f32[4] state, %v: f32[4] state,
    %g: f32[4], %rate: f32[], %n: i64[])
    -> (bf16[4], f32[4], f32[4], f32[4]) {
  %u = upper_half(%w) : bf16[4]
  %y = neg(%u) : bf16[4]
  %w.new, %m.new, %v.new = adamw(%w, %g, %m, %v, %rate, %n) {in_halves=true} : f32[4], f32[4], f32[4]
  return %y, %w.new alias %w, %m.new alias %m, %v.new alias %v
}
)";

TEST(VerifyHalves, EveryUseOfAValueAgrees) {
  EXPECT_EQ(ErrorOf(Parse(kStep)), "no error");
  Program program = Parse(kStep);
  program.ops[2].attrs.Set(kInHalves, false);
  EXPECT_THAT(ErrorOf(program),
              HasSubstr("%w is stored in halves (ir/halves.h), it reads it "
                        "whole"));
  program = Parse(kStep);
  program.ops[0].operands = {program.FindValue("g")};  // adamw has it whole
  EXPECT_THAT(ErrorOf(program), HasSubstr("%g is stored in halves"));
}

TEST(VerifyHalves, OnlyInputsAndUpdatesAreStoredSo) {
  EXPECT_THAT(ErrorOf(Parse(R"(asyra 1 global
program @f(%w: f32[4]) -> (bf16[4]) {
  %x = neg(%w) : f32[4]
  %u = upper_half(%x) : bf16[4]
  return %u
}
)")),
              HasSubstr("%x is not stored in halves: it is neither an input "
                        "nor updated in them"));
}

TEST(VerifyHalves, WhatReplacesAStateIsStoredAsIt) {
  Program program = Parse(kStep);
  program.outputs[1].value = program.FindValue("m.new");
  program.outputs[2].value = program.FindValue("w.new");
  EXPECT_EQ(ErrorOf(program),
            "%m.new replaces %w, but only %w is stored in halves");
}

}  // namespace
}  // namespace asyra
