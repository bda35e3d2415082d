// What may share bytes of the arena.
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ir/plans/planted_bug.h"

namespace asyra {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// %q may overwrite %p only once %f is waited for.
constexpr std::string_view kAllocated = R"(asyra 1 allocated
mesh (tp=2)
program @f(%a: f32[4, 4@tp], %b: f32[4, 4@tp], %w: f32[4@tp, 4] weight)
    -> (f32[4, 4]) {
  %p = matmul(%a, %w) on c : f32[4, 4] partial(tp) at 0
  %f = start all_reduce(%p) {axes=tp} on tp : future f32[4, 4] at 64
  %y = wait(%f) on c : f32[4, 4] at 64
  %q = matmul(%b, %w) on c : f32[4, 4] partial(tp) at 0
  %g = start all_reduce(%q) {axes=tp} on tp : future f32[4, 4] at 128
  %z = wait(%g) on c : f32[4, 4] at 128
  %r = add(%y, %z) on c : f32[4, 4] at 192
  return %r
}
)";

TEST(VerifyMemory, AcceptsTheProgramsThatTheOthersSpoil) {
  EXPECT_EQ(ErrorOf(Parse(kAllocated)), "no error");
}

TEST(VerifyMemory, EveryValueHasAnOffset) {
  EXPECT_THAT(ErrorWith(kAllocated, " at 192", ""),
              AllOf(HasSubstr("%r = add(%y, %z)"), HasSubstr("no offset")));
}

TEST(VerifyMemory, ViewsLieOnWhatTheyView) {
  EXPECT_THAT(ErrorWith(kAllocated, "%z = wait(%g) on c : f32[4, 4] at 128",
                        "%z = wait(%g) on c : f32[4, 4] at 256"),
              AllOf(HasSubstr("%z = wait(%g)"),
                    HasSubstr("a view at 256 of a value at 128")));
}

TEST(VerifyMemory, LiveRangesThatShareBytesAreOrdered) {
  // %f is read by way of its view %y.
  EXPECT_THAT(
      ErrorWith(kAllocated,
                "%q = matmul(%b, %w) on c : f32[4, 4] partial(tp) at 0",
                "%q = matmul(%b, %w) on c : f32[4, 4] partial(tp) at 32"),
      AllOf(HasSubstr("%q = matmul(%b, %w) on c"),
            HasSubstr("%q at [32, 96) overwrites %f at [64, 128)"),
            HasSubstr("may still be in use by %r = add(%y, %z)")));
}

TEST(VerifyMemory, OpsThatWorkInPlaceLieOnAnOperandThatTheyReadLast) {
  // %y is %f under another name.
  EXPECT_EQ(ErrorWith(kAllocated, " at 192", " at 64"), "no error");
  // Not where it is a little off, ...
  EXPECT_THAT(ErrorWith(kAllocated, " at 192", " at 96"),
              HasSubstr("%r at [96, 160) overwrites %f at [64, 128)"));
  // ... where somebody else reads on, ...
  EXPECT_THAT(ErrorWith(kAllocated, "%r = add(%y, %z) on c : f32[4, 4] at 192",
                        "%t = add(%y, %z) on c : f32[4, 4] at 64\n"
                        "  %r = add(%y, %t) on c : f32[4, 4] at 192"),
              AllOf(HasSubstr("%t = add(%y, %z)"),
                    HasSubstr("%t at [64, 128) overwrites %f at [64, 128)"),
                    HasSubstr("may still be in use by %r = add(%y, %t)")));
  // ... where the op does not, ...
  EXPECT_THAT(ErrorWith(kAllocated, "%r = add(%y, %z) on c : f32[4, 4] at 192",
                        "%r = matmul(%y, %z) on c : f32[4, 4] at 64"),
              HasSubstr("%r at [64, 128) overwrites %f at [64, 128)"));
  // ... and where places are others because types are.
  EXPECT_THAT(
      ErrorWith(kAllocated, "%r = add(%y, %z) on c : f32[4, 4] at 192",
                "%o = iota() {shape=[4], dim=0, dtype=f32} on c : f32[4]\n"
                "  %i = add(%o, %o) on c : f32[4] at 256\n"
                "  %r = add(%i, %z) on c : f32[4, 4] at 256"),
      HasSubstr("%r at [256, 320) overwrites %i at [256, 272)"));
}

TEST(VerifyMemory, AnAllReduceMayLieOnItsOperand) {
  std::string text(kAllocated);
  text = absl::StrReplaceAll(
      text, {{"future f32[4, 4] at 64", "future f32[4, 4] at 0"},
             {"%y = wait(%f) on c : f32[4, 4] at 64",
              "%y = wait(%f) on c : f32[4, 4] at 0"},
             {"%q = matmul(%b, %w) on c : f32[4, 4] partial(tp) at 0",
              "%q = matmul(%b, %w) on c : f32[4, 4] partial(tp) at 64"}});
  EXPECT_EQ(ErrorOf(Parse(text)), "no error");
  // Its operand is not to be read by others meanwhile.
  EXPECT_THAT(ErrorWith(text, "  %q = matmul",
                        "  %n = neg(%p) on c : f32[4, 4] partial(tp) at 512\n"
                        "  %q = matmul"),
              AllOf(HasSubstr("%f at [0, 64) overwrites %p at [0, 64)"),
                    HasSubstr("may still be in use by %n = neg(%p)")));
}

TEST(VerifyMemory, OperandsOfAStartAreReadUntilItsWait) {
  std::string text(kAllocated);
  std::string_view wait = "  %y = wait(%f) on c : f32[4, 4] at 64\n";
  text.erase(text.find(wait), wait.size());
  EXPECT_THAT(
      ErrorWith(text, "  %z = wait(%g)", std::string(wait) + "  %z = wait(%g)"),
      AllOf(HasSubstr("%q at [0, 64) overwrites %p at [0, 64)"),
            HasSubstr("in use by %y = wait(%f)")));
  // That it comes later on the same stream is not enough: only the wait is.
  text = absl::StrReplaceAll(
      Replaced(text, "  %z = wait(%g)", std::string(wait) + "  %z = wait(%g)"),
      {{"partial(tp) at 0\n  %g", "partial(tp) at 192\n  %g"},
       {"at 128", "at 0"}});
  EXPECT_THAT(ErrorOf(Parse(text)),
              AllOf(HasSubstr("%g at [0, 64) overwrites %p at [0, 64)"),
                    HasSubstr("in use by %y = wait(%f)")));
}

TEST(VerifyMemory, WhatStaysFromStepToStepNeedsNoOffset) {
  constexpr std::string_view kOutside = R"(asyra 1 allocated
program @f(%s: f32[4] state, %x: f32[4]) -> (f32[4], f32[4]) {
  %c = iota() {shape=[4], dim=0, dtype=f32} on c : f32[4]
  %a = add(%c, %x) on c : f32[4] at 0
  %u = add(%s, %a) on c : f32[4]
  %v = reshape(%u) {shape=[4]} on c : f32[4]
  %y = add(%a, %a) on c : f32[4] at 0
  return %v alias %s, %y
}
)";
  EXPECT_EQ(ErrorOf(Parse(kOutside)), "no error");
  // The state is read after what replaces it.
  EXPECT_THAT(ErrorWith(kOutside, "%y = add(%a, %a)", "%y = add(%a, %s)"),
              AllOf(HasSubstr("%u = add(%s, %a)"),
                    HasSubstr("%u overwrites %s, which may still be in use by "
                              "%y = add(%a, %s)")));
  // It is given back as it was.
  EXPECT_THAT(ErrorWith(Replaced(kOutside, "(f32[4], f32[4])",
                                 "(f32[4], f32[4], f32[4])"),
                        "alias %s, %y", "alias %s, %y, %s"),
              HasSubstr("%u overwrites %s, which must outlive the program"));
  // The state has a place in the arena, what replaces it has none.
  EXPECT_THAT(ErrorWith(kOutside, "f32[4] state", "f32[4] at 64 state"),
              HasSubstr("%u has no offset, the state %s that it replaces is "
                        "at 64"));
  EXPECT_THAT(ErrorWith(kOutside, "%v alias %s, %y", "%v, %y alias %s"),
              HasSubstr("%u has no offset"));
}

TEST(VerifyMemory, ConstantsLieOutsideOfTheArena) {
  constexpr std::string_view kConstant = R"(asyra 1 allocated
program @f(%x: f32[4]) -> (f32[4]) {
  %c = constant() {value=f32[](2.0)} on c : f32[]
  %y = mul(%x, %c) on c : f32[4] at 0
  return %y
}
)";
  EXPECT_EQ(ErrorOf(Parse(kConstant)), "no error");
  EXPECT_THAT(ErrorWith(kConstant, "on c : f32[]", "on c : f32[] at 64"),
              AllOf(HasSubstr("%c = constant()"),
                    HasSubstr("a constant has offset 64 in the arena")));
}

// What comes after a constant comes after all that is before it on its stream:
// bytes may be used again on the strength of that.
TEST(VerifyMemory, TheOrderOfAConstantCounts) {
  constexpr std::string_view kAfter = R"(asyra 1 allocated
program @race(%x: f32[8]) -> (f32[1], f32[8]) {
  %a = exp(%x) on compute : f32[8] at 0
  %s = reduce_sum(%a) {dims=[0]} on compute : f32[1] at 64
  %c = constant() {value=f32[](2.0)} on compute : f32[]
  %y = mul(%x, %c) on compute2 after(%c) : f32[8] at 0
  return %s, %y
}
)";
  EXPECT_EQ(ErrorOf(Parse(kAfter)), "no error");
  EXPECT_THAT(ErrorWith(kAfter, " after(%c)", ""),
              AllOf(HasSubstr("%y at [0, 32) overwrites %a at [0, 32)"),
                    HasSubstr("in use by %s = reduce_sum(%a)")));
}

TEST(VerifyMemory, OutputsAndWeightsOutliveTheProgram) {
  EXPECT_THAT(
      ErrorWith(kAllocated, "%a: f32[4, 4@tp]", "%a: f32[4, 4@tp] at 128"),
      HasSubstr("no error"));
  EXPECT_THAT(
      ErrorWith(kAllocated, "[4@tp, 4] weight", "[4@tp, 4] at 192 weight"),
      AllOf(HasSubstr("overwrites %w at [192, 224)"),
            HasSubstr("must outlive the program")));
  EXPECT_THAT(ErrorWith(kAllocated, "  return",
                        "  %k = add(%z, %z) on c : f32[4, 4] at 224\n  return"),
              AllOf(HasSubstr("%k at [224, 288) overwrites %r at [192, 256)"),
                    HasSubstr("must outlive the program")));
  std::string text(kAllocated);
  size_t at = text.find("%a: f32[4, 4@tp]");
  text.insert(at + 16, " at 512");
  EXPECT_THAT(ErrorWith(text, "%b: f32[4, 4@tp]", "%b: f32[4, 4@tp] at 528"),
              HasSubstr("which is an input as well"));
}

TEST(VerifyMemory, AStateIsReplacedInPlaceByItsOwnOutput) {
  constexpr std::string_view kInPlace = R"(asyra 1 allocated
program @f(%s: f32[4] at 0 state, %t: f32[4] at 16 state)
    -> (f32[4], f32[4]) {
  %a = add(%s, %s) on c : f32[4] at 32
  %u = add(%a, %t) on c : f32[4] at 0
  %v = add(%a, %a) on c : f32[4] at 16
  return %u alias %s, %v alias %t
}
)";
  EXPECT_EQ(ErrorOf(Parse(kInPlace)), "no error");
  EXPECT_THAT(ErrorWith(kInPlace, "%u alias %s, %v alias %t",
                        "%u alias %t, %v alias %s"),
              HasSubstr("%u at [0, 16) overwrites %s at [0, 16), which must"));
}

TEST(VerifyMemory, SizesDoNotOverflow) {
  EXPECT_THAT(ErrorWith(kAllocated, " at 192", " at 9223372036854775800"),
              HasSubstr("ends beyond 2^63"));
}

}  // namespace
}  // namespace asyra
