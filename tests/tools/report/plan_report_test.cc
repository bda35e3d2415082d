#include "tools/report/plan_report.h"

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

TEST(PlanText, PhasesOfATrainingStepTellEqualLayersOnce) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 local
mesh (dp=4)
program @f(%x: f32[8@dp, 16], %layer0.up: f32[16, 16] param,
    %layer1.up: f32[16, 16] param, %rate: f32[])
    -> (f32[], f32[], f32[16, 16], f32[16, 16]) {
  %h = matmul(%x, %layer0.up) : f32[8@dp, 16]
  %y = matmul(%h, %layer1.up) {transpose_b=true} : f32[8@dp, 16]
  %p = reduce_sum(%y) {dims=[0, 1], keep=false} : f32[] partial(dp)
  %loss = all_reduce(%p) {axes=dp} : f32[]
  %g0 = matmul_wgrad(%x, %y) : f32[16, 16] partial(dp)
  %layer0.grad = all_reduce(%g0) {axes=dp} : f32[16, 16]
  %g1 = matmul_wgrad(%h, %y) : f32[16, 16] partial(dp)
  %layer1.grad = all_reduce(%g1) {axes=dp} : f32[16, 16]
  %s0 = mul(%layer0.grad, %layer0.grad) : f32[16, 16]
  %norm = reduce_sum(%s0) {dims=[0, 1], keep=false} : f32[]
  %layer0.new = sgd(%layer0.up, %layer0.grad, %rate) : f32[16, 16]
  %layer1.new = sgd(%layer1.up, %layer1.grad, %rate) : f32[16, 16]
  return %loss, %norm, %layer0.new alias %layer0.up,
      %layer1.new alias %layer1.up
}
)"));
  std::string text = PlanText(program);
  EXPECT_THAT(text, HasSubstr("    weights  %layer*.up                 "
                              "         f32[16, 16], 2 of them\n"));
  EXPECT_THAT(text, HasSubstr("    all_reduce     over dp    %g*, 2 of them\n"
                              "      f32[16, 16] partial(dp) -> [16, 16], "
                              "1.50 KiB sent\n"));
  // JSON has each of them.
  EXPECT_THAT(PlanJson(program).dump(), HasSubstr("\"layer1.up\""));
}

}  // namespace
}  // namespace asyra
