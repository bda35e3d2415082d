// Keys that walk, in programs written by hand: what is wrong is named, and what
// is right, or cannot be followed, is left alone.
#include "absl/algorithm/container.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/verify/verifier.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kRows[] = "f32[1, 6@sp, 2, 2]";
constexpr char kSums[] = "f32[1, 2, 6@sp]";

// A program of these lines over 3 devices; R and L stand for the types of rows
// and of log sums.
std::string FaultOf(std::string ops, std::string_view returned = "%y") {
  int results = 1 + static_cast<int>(absl::c_count(returned, ','));
  std::string types;
  for (int i = 0; i < results; ++i) types += i == 0 ? "R" : ", R";
  std::string text = absl::StrReplaceAll(
      fmt::format("asyra 1 local\nmesh (sp=3)\n\nprogram @f(%q: R, %k: R, %v: "
                  "R, %dy: R, %other: R) -> ({}) {{\n{}  return {}\n}}\n",
                  types, ops, returned),
      {{"R", kRows}, {"L", kSums}});
  return std::string(Verify(Parse(text)).message());
}

// Part `shift` of keys and values of these names.
std::string PartText(int shift, std::string_view k, std::string_view v,
                     std::string_view attrs = "scale=0.5") {
  return fmt::format(
      "  %y{0}, %l{0} = attention(%q, {1}, {2}) {{shards=3, shift={0}, {3}, "
      "log_sums=true}} : R, L\n",
      shift, k, v, attrs);
}
std::string ShiftText(std::string_view to, std::string_view from, int by) {
  return fmt::format("  {} = shift({}) {{dim=1, by={}, axes=sp}} : R\n", to,
                     from, by);
}
std::string MergeText(std::string_view parts) {
  return fmt::format("  %y, %l = attention_merge({}) : R, L\n", parts);
}

// Keys go on from device to device, and each part is merged when it is there.
TEST(VerifyWalks, LeavesRingsAlone) {
  std::string ring = PartText(0, "%k", "%v") + ShiftText("%k1", "%k", 1) +
                     ShiftText("%v1", "%v", 1) + PartText(1, "%k1", "%v1") +
                     ShiftText("%k2", "%k1", 1) + ShiftText("%v2", "%v1", 1) +
                     PartText(2, "%k2", "%v2");
  EXPECT_EQ(FaultOf(ring + MergeText("%y0, %l0, %y1, %l1, %y2, %l2")), "");
  std::string merged =
      "  %m, %n = attention_merge(%y0, %l0, %y1, %l1) {wide=true} : R, L\n";
  EXPECT_EQ(FaultOf(ring + merged + MergeText("%m, %n, %y2, %l2")), "");
  // The merge of two is what is read.
  EXPECT_THAT(FaultOf(ring + merged, "%m"), HasSubstr("no part of shift 2"));
  EXPECT_THAT(FaultOf(ring + merged + MergeText("%m, %n, %y1, %l1")),
              HasSubstr("%y1 is merged twice"));
}

TEST(VerifyWalks, NamesKeysOfAnotherShard) {
  std::string walk = ShiftText("%k1", "%k", 1) + ShiftText("%k2", "%k1", 1) +
                     ShiftText("%v1", "%v", 1);
  EXPECT_THAT(
      FaultOf(walk + PartText(1, "%k2", "%v1"), "%y1"),
      AllOf(HasSubstr("%y1"),
            HasSubstr("its keys come from 2 devices before, shift says 1")));
  EXPECT_THAT(
      FaultOf(walk + PartText(1, "%k1", "%v1") + PartText(2, "%k2", "%v"),
              "%y1, %y2"),
      HasSubstr("its values come from 0 devices before, shift says 2"));
  EXPECT_EQ(FaultOf(walk + PartText(1, "%k1", "%v1"), "%y1"), "");
}

// Keys of a part that never walk may have been rolled before, and what is
// computed of several values that walked is nobody's shard.
TEST(VerifyWalks, SaysNothingOfWhatItCannotFollow) {
  EXPECT_EQ(FaultOf(PartText(1, "%k", "%v"), "%y1"), "");
  std::string mixed = ShiftText("%k1", "%k", 1) + "  %m = add(%k, %k1) : R\n" +
                      PartText(2, "%m", "%v");
  EXPECT_EQ(FaultOf(mixed, "%y2"), "");
  std::string doubled = ShiftText("%k1", "%k", 1) +
                        "  %m = add(%k1, %k1) : R\n" + PartText(2, "%m", "%v");
  EXPECT_THAT(FaultOf(doubled, "%y2"), HasSubstr("from 1 device before"));
}

TEST(VerifyWalks, PartsAreOfOneAttention) {
  std::string walk = ShiftText("%k1", "%k", 1) + ShiftText("%k2", "%k", 2);
  auto merged = [&](std::string_view attrs, std::string_view parts) {
    return FaultOf(walk + PartText(0, "%k", "%k") +
                   PartText(1, "%k1", "%k1", attrs) +
                   PartText(2, "%k2", "%k2") + MergeText(parts));
  };
  EXPECT_EQ(merged("scale=0.5", "%y0, %l0, %y1, %l1, %y2, %l2"), "");
  EXPECT_THAT(merged("scale=0.25", "%y0, %l0, %y1, %l1, %y2, %l2"),
              HasSubstr("%y0 has scale=0.5, %y1 has 0.25"));
  EXPECT_THAT(merged("scale=0.5, causal=true", "%y1, %l1, %y2, %l2"),
              HasSubstr("%y1 has causal=true, %y2 has false"));
  EXPECT_THAT(merged("scale=0.5", "%y0, %l0, %y2, %l2"),
              HasSubstr("it has no part of shift 1, which rows see"));
  EXPECT_THAT(merged("scale=0.5", "%y0, %l0, %y1, %l2, %y2, %l2"),
              HasSubstr("operand 2 is of %y1, its log sums of %y2"));
}

// A window of one shard sees no other but the one before.
TEST(VerifyWalks, WindowsLeaveShardsOut) {
  std::string near = "causal=true, window=2, scale=0.5";
  std::string walk = ShiftText("%k1", "%k", 1);
  std::string first = walk + PartText(0, "%k", "%k", near),
              second = PartText(1, "%k1", "%k1", near);
  EXPECT_EQ(FaultOf(first + second + MergeText("%y0, %l0, %y1, %l1")), "");
  EXPECT_THAT(FaultOf(first + second + MergeText("%y0, %l0")),
              HasSubstr("it has no part of shift 1"));
}

std::string GradText(int shift, std::string_view k, std::string_view v) {
  return fmt::format(
      "  %dq{0}, %dk{0}, %dv{0} = attention_grad(%q, {1}, {2}, %other, %l, "
      "%dy) {{of=\"qkv\", shards=3, shift={0}, scale=0.5}} : R, R, R\n",
      shift, k, v);
}

std::string Gradients() {
  return ShiftText("%k1", "%k", 1) + ShiftText("%k2", "%k1", 1) +
         "  %z, %l = attention(%q, %k, %v) {scale=0.5, shards=3, "
         "log_sums=true} : R, L\n" +
         GradText(0, "%k", "%k") + GradText(1, "%k1", "%k1") +
         GradText(2, "%k2", "%k2") +
         "  %dq01 = add(%dq0, %dq1) : R\n  %dq = add(%dq01, %dq2) : R\n";
}

// Gradients travel with their keys: the sum of the first comes to the second.
TEST(VerifyWalks, GradientsTravelWithTheirKeys) {
  std::string there;
  for (std::string d : {"k", "v"}) {
    there += ShiftText(fmt::format("%s{}", d), fmt::format("%d{}0", d), 1) +
             fmt::format("  %t{0} = add(%s{0}, %d{0}1) : R\n", d) +
             ShiftText(fmt::format("%u{}", d), fmt::format("%t{}", d), 1) +
             fmt::format("  %w{0} = add(%u{0}, %d{0}2) : R\n", d);
  }
  std::string home = ShiftText("%dk", "%wk", 1) + ShiftText("%dv", "%wv", 1);
  std::string twice = "  %d = add(%dk, %dk) : R\n";
  EXPECT_EQ(FaultOf(Gradients() + there + home + twice, "%dq, %dk, %dv, %d"),
            "");
  EXPECT_THAT(
      FaultOf(Gradients() + there + home, "%dq, %wk, %dv"),
      HasSubstr("output %wk has gradients of keys that come from 2 devices"));
  EXPECT_THAT(FaultOf(Gradients() + there + home, "%dq, %dk"), testing::Eq(""));
}

TEST(VerifyWalks, GradientsComeBackOnce) {
  auto summed = [](int by, std::string_view last) {
    return FaultOf(Gradients() + ShiftText("%r1", "%dk1", by) +
                       ShiftText("%r2", "%dk2", 1) +
                       fmt::format("  %s = add(%dk0, %r1) : R\n"
                                   "  %dk = add(%s, {}) : R\n",
                                   last),
                   "%dq, %dk");
  };
  EXPECT_EQ(summed(2, "%r2"), "");
  EXPECT_THAT(summed(1, "%r2"),
              HasSubstr("%dk0 has gradients of keys that come from 0 devices "
                        "before, %r1 from 2 devices"));
  EXPECT_THAT(summed(2, "%r1"), HasSubstr("it adds %dk1 twice"));
  EXPECT_THAT(summed(2, "%other"),
              HasSubstr("no output depends on %dk2, where those of other"));
  EXPECT_THAT(FaultOf(Gradients(), "%dq01"),
              HasSubstr("no output depends on %dq2"));
}

// Sizes at which counting what rows see takes forever, or divides by none.
TEST(VerifyWalks, OddSizesEnd) {
  for (std::string_view text :
       {"asyra 1 local\nmesh (sp=1048576)\n\nprogram @f(%q: f32[1, "
        "1048576@sp, 1, 1], %k: f32[1, 1048576@sp, 1, 1]) -> (f32[1, "
        "1048576@sp, 1, 1]) {\n  %y, %l = attention(%q, %k, %k) "
        "{shards=1048576, scale=0.5, window=1, log_sums=true} : f32[1, "
        "1048576@sp, 1, 1], f32[1, 1, 1048576@sp]\n  %z, %m = "
        "attention_merge(%y, %l) : f32[1, 1048576@sp, 1, 1], f32[1, 1, "
        "1048576@sp]\n  return %z\n}\n",
        "asyra 1 local\nmesh (sp=2)\n\nprogram @f(%q: f32[1, 0@sp, 1, 1], %k: "
        "f32[1, 4@sp, 1, 1]) -> (f32[1, 0@sp, 1, 1]) {\n  %y, %l = "
        "attention(%q, %k, %k) {shards=2, scale=0.5, log_sums=true} : f32[1, "
        "0@sp, 1, 1], f32[1, 1, 0@sp]\n  %z, %m = attention_merge(%y, %l) : "
        "f32[1, 0@sp, 1, 1], f32[1, 1, 0@sp]\n  return %z\n}\n"}) {
    EXPECT_EQ(Verify(Parse(text)), absl::OkStatus());
  }
}

}  // namespace
}  // namespace asyra
