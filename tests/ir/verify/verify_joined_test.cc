// Collectives of several values: what only they can get wrong.
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ir/plans/planted_bug.h"

namespace asyra {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// %n may overwrite %q once %f is waited for, since %g is there by then as well.
constexpr std::string_view kJoined = R"(asyra 1 allocated
mesh (tp=2)
program @f(%a: f32[4, 4@tp], %b: f32[4, 4@tp], %w: f32[4@tp, 4] weight)
    -> (f32[4, 4], f32[4, 4]) {
  %p = matmul(%a, %w) on c : f32[4, 4] partial(tp) at 0
  %q = matmul(%b, %w) on c : f32[4, 4] partial(tp) at 64
  %f, %g = start all_reduce(%p, %q) {axes=tp} on tp : future f32[4, 4] at 128, future f32[4, 4] at 192
  %y = wait(%f) on c : f32[4, 4] at 128
  %n = matmul(%y, %y) on c : f32[4, 4] at 64
  %z = wait(%g) on c : f32[4, 4] at 192
  return %n, %z
}
)";

TEST(VerifyStarts, EveryFutureOfAStartHasOneWait) {
  EXPECT_EQ(ErrorOf(Parse(kJoined)), "no error");
  EXPECT_THAT(ErrorWith(Replaced(kJoined, "return %n, %z", "return %n, %y"),
                        "  %z = wait(%g) on c : f32[4, 4] at 192\n", ""),
              AllOf(HasSubstr("%f, %g = start all_reduce(%p, %q)"),
                    HasSubstr("%g is never waited for")));
  EXPECT_THAT(ErrorWith(kJoined, "wait(%g)", "wait(%f)"),
              HasSubstr("%f is waited for 2 times, again by %z = wait(%f)"));
}

TEST(VerifyTypes, AStartGivesAFutureForEachOperand) {
  EXPECT_THAT(ErrorWith(kJoined, "all_reduce(%p, %q)", "all_reduce(%p)"),
              HasSubstr("2 results, the definition gives 1"));
  EXPECT_THAT(
      ErrorWith(kJoined, "all_reduce(%p, %q)", "all_reduce(%p, %q, %q)"),
      HasSubstr("2 results, the definition gives 3"));
  EXPECT_THAT(ErrorWith(kJoined, "all_reduce(%p, %q)", "all_reduce(%p, %a)"),
              HasSubstr("all_reduce: operand 1: the operand is not partial "
                        "over tp"));
}

TEST(VerifyMemory, OperandsOfAStartAreReadUntilItsFirstWait) {
  std::string text(kJoined);
  text = Replaced(text, "  %y = wait",
                  "  %o = exp(%w) on c : f32[4@tp, 4] at "
                  "96\n  %y = wait");
  EXPECT_THAT(ErrorOf(Parse(text)),
              AllOf(HasSubstr("%o at [96, 128) overwrites %q at [64, 128)"),
                    HasSubstr("in use by %y = wait(%f)")));
  // Whichever comes first.
  std::string_view last = "  %z = wait(%g) on c : f32[4, 4] at 192\n";
  text = Replaced(Replaced(text, last, ""), "  %o = exp",
                  std::string(last) + "  %o = exp");
  EXPECT_EQ(ErrorOf(Parse(text)), "no error");
}

TEST(VerifyMemory, EachSumOfAJoinedOneMayLieOnItsOwnOperand) {
  auto at = [](const char* f, const char* g) {
    return absl::StrReplaceAll(
        Replaced(kJoined, "[4, 4] at 64\n  %z", "[4, 4] at 256\n  %z"),
        {{"at 128", f}, {"at 192", g}});
  };
  EXPECT_EQ(ErrorOf(Parse(at("at 0", "at 64"))), "no error");
  EXPECT_THAT(ErrorOf(Parse(at("at 64", "at 0"))),
              HasSubstr("%f at [64, 128) overwrites %q at [64, 128)"));
  EXPECT_THAT(ErrorWith(at("at 0", "at 64"), "all_reduce(%p, %q)",
                        "all_reduce(%p, %p)"),
              HasSubstr("%f at [0, 64) overwrites %p at [0, 64)"));
  EXPECT_THAT(ErrorOf(Parse(at("at 128", "at 160"))),
              AllOf(HasSubstr("%g at [160, 224) overwrites %f at [128, 192)"),
                    HasSubstr("which the same op writes")));
}

}  // namespace
}  // namespace asyra
