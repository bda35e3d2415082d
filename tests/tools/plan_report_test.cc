#include "tools/plan_report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "nlohmann/json.hpp"

namespace asyra {
namespace {

using ::testing::HasSubstr;

// Two equal layers; over tp = 4 a buffer of f32[8, 16] has 512 bytes.
Program TwoLayers() {
  return ASYRA_VALUE(ParseProgram(R"(asyra 1 local
mesh (dp=2, tp=4)
program @f(%x: f32[8@tp, 16], %up: f32[16, 64@tp] weight,
    %down: f32[64@tp, 16] weight, %up2: f32[16, 64@tp] weight,
    %down2: f32[64@tp, 16] weight) -> (f32[8, 16]) {
  %g = all_gather(%x) {axes=tp, dim=0} : f32[8, 16]
  %h = matmul(%g, %up) : f32[8, 64@tp]
  %p = matmul(%h, %down) : f32[8, 16] partial(tp)
  %y = reduce_scatter(%p) {axes=tp, dim=0} : f32[8@tp, 16]
  %g2 = all_gather(%y) {axes=tp, dim=0} : f32[8, 16]
  %h2 = matmul(%g2, %up2) : f32[8, 64@tp]
  %p2 = matmul(%h2, %down2) : f32[8, 16] partial(tp)
  %y2 = reduce_scatter(%p2) {axes=tp, dim=0} : f32[8@tp, 16]
  %z = all_gather(%y2) {axes=tp, dim=0} : f32[8, 16]
  return %z
}
)"));
}

TEST(PlanText, FoldsLayersAndTellsWhatMoves) {
  EXPECT_EQ(PlanText(TwoLayers()), R"( plan over (dp=2, tp=4)
  2 x 4 ops, 2 collectives
    weights  %up                                 f32[16, 64@tp]
             %down                               f32[64@tp, 16]
    all_gather     over tp    %x
      f32[8@tp, 16] -> [8, 16], 384 bytes sent
    reduce_scatter over tp    %p
      f32[8, 16] partial(tp) -> [8@tp, 16], 384 bytes sent
    out      %y2                                 f32[8@tp, 16]
  1 op, 1 collective
    in       %y2                                 f32[8@tp, 16]
    all_gather     over tp    %y2
      f32[8@tp, 16] -> [8, 16], 384 bytes sent
    out      %z                                  f32[8, 16]
  in all     3 all_gather over tp, 1.12 KiB sent by each device
  in all     2 reduce_scatter over tp, 768 bytes sent by each device
)");
}

TEST(PlanJson, HasTheSame) {
  nlohmann::json plan = PlanJson(TwoLayers());
  ASSERT_EQ(plan["blocks"].size(), 2u);
  const nlohmann::json& layer = plan["blocks"][0];
  EXPECT_EQ(layer["repeats"], 2);
  EXPECT_EQ(layer["ops"], 4);
  EXPECT_EQ(layer["weights"][1]["value"], "down");
  EXPECT_EQ(layer["weights"][1]["type"], "f32[64@tp, 16]");
  EXPECT_EQ(layer["collectives"][0]["op"], "all_gather");
  EXPECT_EQ(layer["collectives"][0]["axes"], "tp");
  EXPECT_EQ(layer["collectives"][0]["value"], "x");
  EXPECT_EQ(layer["collectives"][0]["from"], "f32[8@tp, 16]");
  EXPECT_EQ(layer["collectives"][0]["to"], "f32[8, 16]");
  EXPECT_EQ(layer["collectives"][0]["wire_bytes"], 384);
  EXPECT_EQ(plan["collectives"][0]["count"], 3);
  EXPECT_EQ(plan["collectives"][0]["wire_bytes"], 3 * 384);
}

TEST(PlanText, AnAllReduceSendsTwice) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 local
mesh (tp=4)
program @f(%x: f32[8, 64@tp], %w: f32[64@tp, 16] weight) -> (f32[8, 16]) {
  %p = matmul(%x, %w) : f32[8, 16] partial(tp)
  %y = all_reduce(%p) {axes=tp} : f32[8, 16]
  return %y
}
)"));
  EXPECT_THAT(PlanText(program), HasSubstr("-> [8, 16], 768 bytes sent\n"));
}

}  // namespace
}  // namespace asyra
