// Which ops of several lanes may be merged into one.
#include "passes/schedule/tile/bucket_candidates.h"

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Two lanes, whose values are %x0 and %x1; the ops of each lane compute %y0 and
// %y1 of one type.
Program TwoLanes(std::string_view first, std::string_view second) {
  return ASYRA_VALUE(ParseProgram(fmt::format(
      R"(asyra 1 scheduled
program @f(%x: f32[4, 8, 2, 4], %row: f32[4], %column: f32[8, 1, 1],
    %bias: f32[1, 2, 8, 8]) -> (f32[4, 8, 2, 4]) {{
  %x0 = tile(%x) {{dim=0, part=0, of=2}} on compute : f32[2, 8, 2, 4]
  %x1 = tile(%x) {{dim=0, part=1, of=2}} on compute : f32[2, 8, 2, 4]
  %y0 = {} on compute : f32[2, 8, 2, 4]
  %y1 = {} on compute : f32[2, 8, 2, 4]
  %y = untile(%y0, %y1) {{dim=0}} on compute : f32[4, 8, 2, 4]
  return %y
}}
)",
      first, second)));
}

// The results of the ops that are merged, by group.
std::vector<std::vector<std::string>> Merged(const Program& program) {
  std::vector<std::vector<std::string>> names;
  for (const BucketCandidate& candidate : BucketCandidates(program)) {
    EXPECT_FALSE(candidate.join);
    for (const TileGroup& group : candidate.groups) {
      std::vector<std::string>& results = names.emplace_back();
      for (int op : group) {
        results.push_back(program.value_name(program.ops[op].results[0]));
      }
    }
  }
  return names;
}

TEST(Mergeable, AreOpsThatAllLanesHaveInCommon) {
  EXPECT_THAT(Merged(TwoLanes("exp(%x0)", "exp(%x1)")),
              ElementsAre(ElementsAre("y0", "y1")));
  EXPECT_THAT(Merged(TwoLanes("add(%x0, %row)", "add(%x1, %row)")),
              ElementsAre(ElementsAre("y0", "y1")));
}

TEST(Mergeable, AreNoOpsOfOtherKinds) {
  EXPECT_THAT(Merged(TwoLanes("exp(%x0)", "neg(%x1)")), IsEmpty());
}

TEST(Mergeable, AreNoOpsWithOtherAttributes) {
  EXPECT_THAT(
      Merged(TwoLanes("attention(%x0, %x0, %x0) {causal=true, scale=0.5}",
                      "attention(%x1, %x1, %x1) {causal=false, scale=0.5}")),
      IsEmpty());
}

// The results are of one type all the same, and tiles.
TEST(Mergeable, AreNoOpsWithOperandsOfOtherTypes) {
  EXPECT_THAT(Merged(TwoLanes("add(%x0, %row)", "add(%x1, %column)")),
              IsEmpty());
  EXPECT_THAT(Merged(TwoLanes("add(%x0, %column)", "add(%x1, %row)")),
              IsEmpty());
}

TEST(Mergeable, AreNoOpsWithMoreOperands) {
  constexpr std::string_view kPlain[] = {
      "attention(%x0, %x0, %x0) {scale=0.5}",
      "attention(%x1, %x1, %x1) {scale=0.5}"};
  constexpr std::string_view kBiased[] = {
      "attention(%x0, %x0, %x0, %bias) {scale=0.5}",
      "attention(%x1, %x1, %x1, %bias) {scale=0.5}"};
  EXPECT_THAT(Merged(TwoLanes(kPlain[0], kPlain[1])), SizeIs(1));
  EXPECT_THAT(Merged(TwoLanes(kBiased[0], kBiased[1])), SizeIs(1));
  EXPECT_THAT(Merged(TwoLanes(kPlain[0], kBiased[1])), IsEmpty());
  EXPECT_THAT(Merged(TwoLanes(kBiased[0], kPlain[1])), IsEmpty());
}

}  // namespace
}  // namespace asyra
