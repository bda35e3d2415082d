// Where tiles start: at the batch or the sequence, wherever these are.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "passes/pass_manager.h"

namespace asyra {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The program tiled, as text that tells which dimension is cut; or why not.
struct Outcome {
  std::string error;
  std::string remark;
};

Outcome TileAlong(std::string_view dim, std::string_view text,
                  const DimNames& names) {
  Program program = ASYRA_VALUE(ParseProgram(text));
  PassContext context;
  context.dim_names = names;
  absl::Status status =
      RunPasses(program, fmt::format("tile{{tiles=2, dim={}}}", dim), context);
  std::string remark = context.remarks.empty() ? "" : context.remarks[0];
  return {status.ToString(), remark};
}

constexpr std::string_view kText = R"(asyra 1 local
program @f(%x: f32[4, 6, 8]) -> (f32[4, 6, 8]) {
  %y = relu(%x) : f32[4, 6, 8]
  return %y
}
)";
const DimNames* const kTimeLast =
    new DimNames{{"x", {"batch", "channels", "time"}}};

TEST(TileDims, GoByNames) {
  EXPECT_THAT(TileAlong("sequence", kText, *kTimeLast).remark,
              HasSubstr("1 of 1 ops cut into 2 along dim 2 \"time\" of input "
                        "%x, 0 join points"));
  EXPECT_THAT(TileAlong("batch", kText, *kTimeLast).remark,
              HasSubstr("along dim 0 \"batch\" of input %x,"));
  EXPECT_THAT(TileAlong("batch", kText, {{"x", {"seq", "", "batch"}}}).remark,
              HasSubstr("along dim 2 \"batch\" of input %x,"));
}

TEST(TileDims, GoByPlaceWhereNothingTells) {
  EXPECT_THAT(TileAlong("sequence", kText, {}).remark,
              HasSubstr("along dim 1 of input %x,"));
  EXPECT_THAT(TileAlong("2", kText, {}).remark,
              HasSubstr("along dim 2 of input %x,"));
}

// The first that cuts; what does not is told.
TEST(TileDims, OfSeveralInputsTheFirstThatCuts) {
  constexpr std::string_view kSeveral = R"(asyra 1 local
program @f(%x: f32[4, 3], %y: f32[4, 8], %z: f32[4, 8])
    -> (f32[4, 3], f32[4, 8], f32[4, 8]) {
  %a = relu(%x) : f32[4, 3]
  %b = relu(%y) : f32[4, 8]
  %c = relu(%z) : f32[4, 8]
  return %a, %b, %c
}
)";
  EXPECT_THAT(TileAlong("sequence", kSeveral, {}).remark,
              HasSubstr("2 of 3 ops cut into 2 along dim 1 of input %y,"));
  EXPECT_THAT(TileAlong("1", kSeveral, {}).remark,
              HasSubstr("2 of 3 ops cut into 2 along dim 1 of input %y,"));
}

TEST(TileDims, RefusalsNameTheDimensionsConsidered) {
  constexpr std::string_view kImage = R"(asyra 1 local
program @f(%x: f32[4, 1, 8], %y: f32[3]) -> (f32[4, 1, 8], f32[3]) {
  %a = relu(%x) : f32[4, 1, 8]
  %b = relu(%y) : f32[3]
  return %a, %b
}
)";
  EXPECT_THAT(TileAlong("sequence", kImage, {{"x", {"batch", "", "w"}}}).error,
              HasSubstr("no dim of the data inputs is the sequence: there are "
                        "dim 0 \"batch\" of input %x (4, batch), dim 1 of "
                        "input %x (1), dim 2 \"w\" of input %x (8), "));
  EXPECT_THAT(
      TileAlong("sequence", kImage, {{"x", {"", "seq"}}, {"y", {"past"}}})
          .error,
      HasSubstr("dim 1 \"seq\" of input %x is 1 on a device, it does not cut "
                "into 2 tiles, nor does dim 0 \"past\" of input %y (3)"));
}

}  // namespace
}  // namespace asyra
