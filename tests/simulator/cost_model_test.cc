#include "simulator/cost_model.h"

#include "gmock/gmock.h"
#include "ir/builder.h"
#include "ir/support/status.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

using Kind = CollectiveKind;

CostModel Model(std::vector<Mesh::Axis> axes) {
  return CostModel(TestMachine(), ASYRA_VALUE(Mesh::Create(std::move(axes))));
}

TEST(CostModel, PayloadIsThatOfNcclTests) {
  CostModel costs = Model({{"tp", 4}});
  EXPECT_DOUBLE_EQ(costs.CollectiveUs(Kind::kAllReduce, 4000, {0}), 10 + 6);
  EXPECT_DOUBLE_EQ(costs.CollectiveUs(Kind::kAllGather, 4000, {0}), 10 + 3);
  EXPECT_DOUBLE_EQ(costs.CollectiveUs(Kind::kReduceScatter, 4000, {0}), 13);
  EXPECT_DOUBLE_EQ(costs.CollectiveUs(Kind::kAllToAll, 4000, {0}), 10 + 3);
  Program program = Parse(R"(asyra 1 local
mesh (tp=4)
program @f(%x: f32[1000@tp], %p: f32[1000] partial(tp)) ->
    (f32[1000], f32[1000@tp], f32[1000]) {
  %a = all_gather(%x) {dim=0, axes=tp} : f32[1000]
  %b = reduce_scatter(%p) {dim=0, axes=tp} : f32[1000@tp]
  %c = all_reduce(%p) {axes=tp} : f32[1000]
  return %a, %b, %c
})");
  std::vector<OpCost> prices = PriceOps(program, costs);
  EXPECT_DOUBLE_EQ(prices[0].time_us, 13);
  EXPECT_DOUBLE_EQ(prices[1].time_us, 13);
  EXPECT_DOUBLE_EQ(prices[2].time_us, 16);
  EXPECT_FALSE(prices[0].is_compute);
  EXPECT_EQ(prices[0].sms, 50);
}

TEST(CostModel, PicksTheFastestProtocol) {
  Machine machine = TestMachine();
  machine.collectives[Kind::kAllReduce].fits = {{2, {{1, 0.5}, {10, 1}}}};
  CostModel costs(machine, ASYRA_VALUE(Mesh::Create({{"tp", 2}})));
  EXPECT_DOUBLE_EQ(costs.CollectiveUs(Kind::kAllReduce, 1000, {0}), 3);
  EXPECT_DOUBLE_EQ(costs.CollectiveUs(Kind::kAllReduce, 20000, {0}), 30);
}

TEST(CostModel, InterpolatesBetweenGroupSizes) {
  Machine machine = TestMachine();
  machine.gpus_per_host = 8;
  machine.collectives[Kind::kAllReduce].fits = {{2, {{10, 1}}}, {8, {{30, 1}}}};
  CostModel costs(machine, ASYRA_VALUE(Mesh::Create({{"dp", 2}, {"tp", 4}})));
  EXPECT_DOUBLE_EQ(costs.CollectiveUs(Kind::kAllReduce, 0, {0}), 10);
  EXPECT_DOUBLE_EQ(costs.CollectiveUs(Kind::kAllReduce, 0, {1}), 20);
  EXPECT_DOUBLE_EQ(costs.CollectiveUs(Kind::kAllReduce, 0, {0, 1}), 30);
}

TEST(CostModel, FindsTheHostsOfAGroup) {
  CostModel costs = Model({{"dp", 4}, {"tp", 4}});  // 4 GPUs a host
  GroupSpan tp = costs.SpanOf({1});
  EXPECT_EQ(tp.hosts, 1);
  EXPECT_EQ(tp.per_host, 4);
  GroupSpan dp = costs.SpanOf({0});
  EXPECT_EQ(dp.hosts, 4);
  EXPECT_EQ(dp.per_host, 1);
  GroupSpan all = costs.SpanOf({0, 1});
  EXPECT_EQ(all.ranks, 16);
  EXPECT_EQ(all.hosts, 4);
  EXPECT_EQ(all.per_host, 4);
  // Groups of 3 on hosts of 4: the second straddles them.
  GroupSpan three = Model({{"dp", 4}, {"tp", 3}}).SpanOf({1});
  EXPECT_EQ(three.hosts, 2);
  EXPECT_EQ(three.per_host, 1);
}

TEST(CostModel, CrossingHostsCostsTheNetwork) {
  CostModel costs = Model({{"dp", 2}, {"tp", 4}});
  // One GPU a host: 0.5 GB/s, and one round of 100 us each way.
  EXPECT_DOUBLE_EQ(costs.CollectiveUs(Kind::kAllGather, 4000, {0}),
                   10 + 100 + 2 / 0.5);
  EXPECT_DOUBLE_EQ(costs.CollectiveUs(Kind::kAllReduce, 4000, {0}),
                   10 + 200 + 4 / 0.5);
  // Four GPUs a host bring 2 GB/s, more than the host's own link.
  EXPECT_DOUBLE_EQ(costs.CollectiveUs(Kind::kAllGather, 8000, {0, 1}),
                   10 + 100 + 7);
  // Half of the buffer leaves the host, through one share of the network.
  EXPECT_DOUBLE_EQ(costs.CollectiveUs(Kind::kAllToAll, 8000, {0, 1}),
                   10 + 100 + 4 / 0.5);
}

TEST(CostModel, GroupsOfOneCostNothing) {
  CostModel costs = Model({{"tp", 1}});
  EXPECT_EQ(costs.CollectiveUs(Kind::kAllReduce, 1e6, {0}), 0);
}

TEST(CostModel, ComputeIsTheLargerOfMathAndMemory) {
  CostModel costs = Model({{"tp", 2}});
  // 1 GB/s and 100 TFLOP/s.
  EXPECT_DOUBLE_EQ(
      costs.ComputeUs({.flops = 1e9, .read_bytes = 3000, .write_bytes = 1000},
                      DType::kF32),
      10);
  EXPECT_DOUBLE_EQ(
      costs.ComputeUs({.flops = 1e6, .read_bytes = 3000, .write_bytes = 1000},
                      DType::kF32),
      4);
  EXPECT_EQ(costs.ComputeUs({}, DType::kF32), 0);
}

// 100 SMs: 100 tiles of 64 x 64 are one wave, one more tile is a second one.
TEST(CostModel, ProductsComeInWholeWaves) {
  Machine machine = TestMachine();
  machine.gpu.gemm_hbm_gbps = 1000;
  CostModel costs(machine, {});
  auto time = [&](int64_t n) {
    Program program = Parse(fmt::format(
        R"(asyra 1 local
program @f(%a: f32[640, 5000], %b: f32[5000, {0}]) -> (f32[640, {0}]) {{
  %c = matmul(%a, %b) : f32[640, {0}]
  return %c
}})",
        n));
    return PriceOps(program, costs)[0].time_us;
  };
  EXPECT_DOUBLE_EQ(time(640), 2.0 * 64 * 64 * 5000 / 1e6);
  EXPECT_DOUBLE_EQ(time(576), time(640));
  EXPECT_DOUBLE_EQ(time(641), 2 * time(640));
}

TEST(CostModel, ViewsWaitsAndConstantsAreFree) {
  Builder builder(ASYRA_VALUE(Mesh::Create({{"tp", 2}})), Stage::kLocal);
  Type partial(DType::kF32, {500});
  partial.partial = {0};
  ValueId x = builder.Input("x", partial);
  ValueId sum =
      ASYRA_VALUE(builder.AddOne("all_reduce", {x}, {{"axes", AxisList{0}}}));
  ASYRA_VALUE(builder.AddOne("reshape", {sum}, {{"shape", Ints{50, 10}}}));
  builder.Constant(Tensor(DType::kF32, {1000}));
  const Program& program = builder.program();
  std::vector<OpCost> prices = PriceOps(program, Model({{"tp", 2}}));
  ASSERT_EQ(prices.size(), 3u);
  EXPECT_FALSE(prices[0].is_free());
  EXPECT_TRUE(prices[1].is_free());
  EXPECT_TRUE(prices[2].is_free());
}

TEST(CostModel, GuessesAreRefusedWhenAsked) {
  Program program = Parse(R"(asyra 1 local
program @f(%x: f32[500]) -> (f32[500]) {
  %a = neg(%x) : f32[500]
  %b = exp(%a) : f32[500]
  return %b
})");
  std::vector<OpCost> prices = PriceOps(program, CostModel(TestMachine(), {}));
  prices[0].source = OpCost::kInterpolated;
  EXPECT_EQ(MessageOf(CheckMeasured(program, prices)),
            "1 of 2 ops, 50.0 % of the time of all ops, are not measured; the "
            "first is %b = exp, whose price is formula");
  prices[1].source = OpCost::kMeasured;
  EXPECT_TRUE(CheckMeasured(program, prices).ok());
}

TEST(CostModel, SaysWhereAnEstimateComesFrom) {
  CostModel costs(ASYRA_VALUE(LoadMachine("h200x8")),
                  ASYRA_VALUE(Mesh::Create({{"tp", 8}})));
  auto source = [&](int64_t elements) {
    ParsedCall call = ASYRA_VALUE(ParseCall(
        fmt::format("all_reduce(f32[{}] partial(tp)) {{axes=tp}}", elements),
        costs.mesh()));
    Type result(DType::kF32, {elements});
    return costs.Cost({*call.def, call.attrs, call.operands, {&result, 1}})
        .source;
  };
  EXPECT_EQ(source(1 << 20), OpCost::kInterpolated);
  EXPECT_EQ(source(1 << 28), OpCost::kExtrapolated);
}

}  // namespace
}  // namespace asyra
