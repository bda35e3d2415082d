#include "executor/train/label_shift.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

// A loss of logits [2, 8, 5] and labels [2, 8]; `body` makes %rows of the
// former and %classes of the latter.
int64_t ShiftOf(const std::string& body, int64_t positions,
                const std::string& loss = "") {
  std::string shape = fmt::format("2, {}", positions);
  return LabelShift(Parse(fmt::format(
      R"(asyra 1 global
program @f(%x: f32[2, 8, 5], %labels: i64[2, 8]) -> (f32[{0}]) {{
{1}{2}  return %losses
}}
)",
      shape, body,
      loss.empty() ? fmt::format("  %losses = cross_entropy(%rows, %classes) "
                                 ": f32[{}]\n",
                                 shape)
                   : loss)));
}

constexpr char kAll[] = R"(  %rows = neg(%x) : f32[2, 8, 5]
  %classes = cast(%labels) {to=i32} : i32[2, 8]
)";
constexpr char kNext[] =
    R"(  %rows = slice(%x) {dim=1, start=0, stop=7} : f32[2, 7, 5]
  %classes = slice(%labels) {dim=1, start=1, stop=8} : i64[2, 7]
)";
constexpr char kPadded[] = R"(  %rows = neg(%x) : f32[2, 8, 5]
  %longer = pad(%labels) {before=[0, 0], after=[0, 1], value=-100.0} : i64[2, 9]
  %later = slice(%longer) {dim=1, start=1, stop=9} : i64[2, 8]
  %none = constant() {value=i64[](-100)} : i64[]
  %ignored = equal(%labels, %none) : bool[2, 8]
  %zero = constant() {value=i64[](0)} : i64[]
  %classes = select(%ignored, %zero, %later) : i64[2, 8]
)";
// The first position has no loss.
constexpr char kBothSliced[] =
    R"(  %rows = slice(%x) {dim=1, start=1, stop=8} : f32[2, 7, 5]
  %classes = slice(%labels) {dim=1, start=1, stop=8} : i64[2, 7]
)";

TEST(LabelShift, FollowsSlicesOfPositions) {
  EXPECT_EQ(ShiftOf(kAll, 8), 0);
  EXPECT_EQ(ShiftOf(kNext, 7), 1);
  EXPECT_EQ(ShiftOf(kPadded, 8), 1);
  EXPECT_EQ(ShiftOf(kBothSliced, 7), 0);
}

TEST(LabelShift, FollowsThemToLookUpsOfFlatRows) {
  EXPECT_EQ(
      ShiftOf(R"(  %last = slice(%x) {dim=1, start=0, stop=7} : f32[2, 7, 5]
  %next = slice(%labels) {dim=1, start=1, stop=8} : i64[2, 7]
  %rows = reshape(%last) {shape=[14, 5]} : f32[14, 5]
  %classes = reshape(%next) {shape=[14]} : i64[14]
)",
              7, R"(  %flat = cross_entropy(%rows, %classes) : f32[14]
  %losses = reshape(%flat) {shape=[2, 7]} : f32[2, 7]
)"),
      1);
}

TEST(LabelShift, IsNoneWithoutLabels) {
  EXPECT_EQ(LabelShift(Parse(R"(asyra 1 global
program @f(%x: f32[2, 8]) -> (f32[2, 7]) {
  %y = slice(%x) {dim=1, start=1, stop=8} : f32[2, 7]
  return %y
}
)")),
            0);
}

}  // namespace
}  // namespace asyra
