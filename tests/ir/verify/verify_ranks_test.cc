// Ranks with programs of their own: the first difference, or the circle in
// which they wait, is named.
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"

namespace asyra {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::string_view kProgram = R"(asyra 1 scheduled
mesh (dp=2, tp=2)
program @f(%a: f32[4, 4@tp], %b: f32[8, 4@tp], %w: f32[4@tp, 4] weight,
    %v: f32[4@dp, 4] weight) -> (f32[4, 4], f32[8, 4], f32[4, 4]) {
  %p = matmul(%a, %w) on c : f32[4, 4] partial(tp)
  %f = start all_reduce(%p) {axes=tp} on tp : future f32[4, 4]
  %q = matmul(%b, %w) on c : f32[8, 4] partial(tp)
  %g = start all_reduce(%q) {axes=tp} on tp : future f32[8, 4]
  %h = start all_gather(%v) {axes=dp, dim=0} on dp : future f32[4, 4]
  %y = wait(%f) on c : f32[4, 4]
  %z = wait(%g) on c : f32[8, 4]
  %u = wait(%h) on c : f32[4, 4]
  return %y, %z, %u
}
)";

// Line `from` moved before line `to`.
std::string Moved(std::string text, std::string_view from,
                  std::string_view to) {
  size_t at = text.find(from);
  ASYRA_CHECK(at != std::string::npos);
  size_t end = text.find('\n', at) + 1;
  std::string line = text.substr(at, end - at);
  text.erase(at, line.size());
  at = text.find(to);
  ASYRA_CHECK(at != std::string::npos);
  return text.insert(at, line);
}

std::string ErrorOf(const std::vector<std::string>& texts) {
  std::vector<Program> programs;
  for (const std::string& text : texts) {
    programs.push_back(ASYRA_VALUE(ParseProgram(text)));
    ASYRA_CHECK_OK(Verify(programs.back()));
  }
  absl::Status status = VerifyRanks(programs);
  return status.ok() ? "no error" : std::string(MessageOf(status));
}

// All ranks run the program, but for `odd`, which runs `text`.
std::string ErrorWithOdd(size_t odd, const std::string& text) {
  std::vector<std::string> texts(4, std::string(kProgram));
  texts[odd] = text;
  return ErrorOf(texts);
}

std::string Replaced(const std::string& from, const std::string& to) {
  return absl::StrReplaceAll(std::string(kProgram), {{from, to}});
}

TEST(VerifyRanks, AcceptsOneProgram) {
  EXPECT_EQ(ErrorWithOdd(0, std::string(kProgram)), "no error");
}

TEST(VerifyRanks, WhatIsBetweenCollectivesIsARanksOwnMatter) {
  std::string text = Moved(std::string(kProgram), "  %u = wait", "  %y = wait");
  text = absl::StrReplaceAll(text, {{"%q", "%other"}});
  EXPECT_EQ(ErrorWithOdd(2, text), "no error");
  // Streams of different axes pass each other.
  text = Moved(std::string(kProgram), "  %h = start", "  %p = matmul");
  EXPECT_EQ(ErrorWithOdd(3, text), "no error");
}

TEST(VerifyRanks, SwappedStartsAreNamed) {
  // The program of rank 3 alone is fine.
  std::string text =
      Moved(std::string(kProgram), "  %g = start", "  %f = start");
  text = Moved(text, "  %q = matmul", "  %g = start");
  EXPECT_THAT(
      ErrorWithOdd(3, text),
      AllOf(HasSubstr("collective 1 over tp differs"),
            HasSubstr("rank 2 runs %f = start all_reduce(%p) {axes=tp}"),
            HasSubstr("rank 3 runs %g = start all_reduce(%q) {axes=tp}")));
}

TEST(VerifyRanks, MissingCollectivesAreNamed) {
  std::string text = absl::StrReplaceAll(
      std::string(kProgram), {{"  %h = start all_gather(%v) {axes=dp, "
                               "dim=0} on dp : future f32[4, 4]\n",
                               ""},
                              {"%u = wait(%h)", "%u = add(%y, %y)"}});
  EXPECT_THAT(ErrorWithOdd(1, text),
              AllOf(HasSubstr("collective 1 over dp differs"),
                    HasSubstr("rank 1 has no more"),
                    HasSubstr("rank 3 runs %h = start all_gather(%v)")));
}

TEST(VerifyRanks, OtherTypesKindsAndAttributesAreNamed) {
  EXPECT_THAT(ErrorWithOdd(0, Replaced("[8, 4", "[16, 4")),
              HasSubstr("collective 2 over tp differs: rank 0 runs %g = start "
                        "all_reduce(%q) {axes=tp} on tp : future f32[16, 4]"));
  EXPECT_THAT(ErrorWithOdd(0, Replaced("f32", "bf16")),
              HasSubstr("collective 1 over"));
  EXPECT_THAT(ErrorWithOdd(2, Replaced("all_reduce(%q) {axes=tp}",
                                       "all_reduce(%q) {axes=tp, ctas=8}")),
              AllOf(HasSubstr("collective 2 over tp differs: rank 2 runs"),
                    HasSubstr("ctas=8")));
}

TEST(VerifyRanks, MeshesAndCountsAgree) {
  std::vector<std::string> texts(3, std::string(kProgram));
  EXPECT_THAT(ErrorOf(texts), HasSubstr("3 programs for the 4 devices of the "
                                        "mesh (dp=2, tp=2)"));
  std::string swapped = absl::StrReplaceAll(std::string(kProgram),
                                            {{"(dp=2, tp=2)", "(tp=2, dp=2)"}});
  EXPECT_THAT(ErrorWithOdd(2, swapped),
              HasSubstr("rank 0 is of the mesh (dp=2, tp=2), rank 2 of"));
}

// On one rank the sum over tp waits for the one over dp, on another the other
// way round: each program is fine, and each communicator has one order.
TEST(VerifyRanks, CirclesThroughSeveralCommunicatorsAreNamed) {
  constexpr std::string_view kTpFirst = R"(asyra 1 scheduled
mesh (dp=2, tp=2)
program @f(%a: f32[2@dp, 4], %b: f32[2@tp, 4]) -> (f32[4], f32[4]) {
  %p = reduce_sum(%a) {dims=[0], keep=false} on c : f32[4] partial(dp)
  %q = reduce_sum(%b) {dims=[0], keep=false} on c : f32[4] partial(tp)
  %t = start all_reduce(%q) {axes=tp} on tp : future f32[4]
  %y = wait(%t) on c : f32[4]
  %d = start all_reduce(%p) {axes=dp} on dp after(%y) : future f32[4]
  %z = wait(%d) on c : f32[4]
  return %y, %z
}
)";
  constexpr std::string_view kDpFirst = R"(asyra 1 scheduled
mesh (dp=2, tp=2)
program @f(%a: f32[2@dp, 4], %b: f32[2@tp, 4]) -> (f32[4], f32[4]) {
  %p = reduce_sum(%a) {dims=[0], keep=false} on c : f32[4] partial(dp)
  %q = reduce_sum(%b) {dims=[0], keep=false} on c : f32[4] partial(tp)
  %d = start all_reduce(%p) {axes=dp} on dp : future f32[4]
  %z = wait(%d) on c : f32[4]
  %n = neg(%z) on c : f32[4]
  %t = start all_reduce(%q) {axes=tp} on tp after(%n) : future f32[4]
  %y = wait(%t) on c : f32[4]
  return %y, %z
}
)";
  std::string tp(kTpFirst), dp(kDpFirst);
  EXPECT_EQ(ErrorOf({tp, tp, tp, tp}), "no error");
  EXPECT_EQ(ErrorOf({dp, dp, dp, dp}), "no error");
  // Ranks 0 and 1 are a group over tp, 0 and 2 one over dp. Two orders meet
  // in ranks 0 and 3, which share no communicator.
  for (const auto& texts :
       {std::vector{tp, tp, dp, dp}, std::vector{tp, dp, dp, tp}}) {
    bool circle = texts[1] == dp;
    EXPECT_EQ(ErrorOf(texts) == "no error", !circle) << ErrorOf(texts);
    if (!circle) continue;
    EXPECT_THAT(ErrorOf(texts),
                AllOf(HasSubstr("ranks wait for each other in a circle: rank "),
                      HasSubstr(" comes to %t = start all_reduce(%q)"),
                      HasSubstr(" comes to %d = start all_reduce(%p)"),
                      HasSubstr("; rank ")));
  }
}

TEST(VerifyRanks, ManyRanksAreChecked) {
  std::string text = absl::StrReplaceAll(
      std::string(kProgram),
      {{"(dp=2, tp=2)", "(dp=64, tp=2)"},
       {"4@dp, 4", "64@dp, 4"},
       {"future f32[4, 4]\n  %y", "future f32[64, 4]\n  %y"},
       {"%u = wait(%h) on c : f32[4, 4]", "%u = wait(%h) on c : f32[64, 4]"},
       {"f32[8, 4], f32[4, 4])", "f32[8, 4], f32[64, 4])"}});
  std::vector<std::string> texts(128, text);
  EXPECT_EQ(ErrorOf(texts), "no error");
}

}  // namespace
}  // namespace asyra
