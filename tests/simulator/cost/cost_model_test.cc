#include "simulator/cost/cost_model.h"

#include "gmock/gmock.h"
#include "ir/builder.h"
#include "ir/support/status.h"
#include "simulator/cost/compute_cost.h"
#include "simulator/cost/load_machine.h"
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
  std::vector<OpCost> op_costs = EstimateCosts(program, costs);
  EXPECT_DOUBLE_EQ(op_costs[0].time_us, 13);
  EXPECT_DOUBLE_EQ(op_costs[1].time_us, 13);
  EXPECT_DOUBLE_EQ(op_costs[2].time_us, 16);
  EXPECT_FALSE(op_costs[0].is_compute);
  EXPECT_EQ(op_costs[0].sms, 50);
}

// What the one op takes, in thousands of bytes.
double OpUs(std::string_view inputs, std::string_view op) {
  Program program =
      Parse(fmt::format(R"(asyra 1 local
program @f({}) -> ({}) {{
  %y = {}
  return %y
}})",
                        inputs, op.substr(op.rfind(':') + 2), op));
  return EstimateCosts(program, Model({}))[0].time_us;
}

TEST(CostModel, RowsThatRegistersDoNotHoldAreReadAgain) {
  // 128 KiB a row are held: softmax reads and writes them once.
  EXPECT_DOUBLE_EQ(OpUs("%x: f32[2, 32768]", "softmax(%x) : f32[2, 32768]"),
                   524.288);
  // Twice as many are read three times.
  EXPECT_DOUBLE_EQ(OpUs("%x: f32[1, 65536]", "softmax(%x) : f32[1, 65536]"),
                   1048.576);
  // Labels and losses are 12 bytes more.
  EXPECT_DOUBLE_EQ(
      OpUs("%x: f32[1, 65536], %l: i64[1]", "cross_entropy(%x, %l) : f32[1]"),
      524.288 + 0.012);
}

TEST(CostModel, MatmulsOfOddRowsTakeLonger) {
  Gpu gpu = ASYRA_VALUE(LoadMachine("h200x8")).gpu;
  auto math_us = [&](int64_t classes, DType dtype) {
    Type x(dtype, {4096, 1024}), w(dtype, {classes, 1024});
    const OpDef& def = *FindOp("matmul");
    AttrMap attrs = {{"transpose_b", true}};
    ASYRA_CHECK_OK(CompleteAttrs(def, &attrs));
    std::vector<Type> operands = {x, w};
    Type result(dtype, {4096, classes});
    Work work = WorkOf({def, attrs, operands, {&result, 1}}, Mesh{});
    return EstimateCompute(gpu, work, dtype, result).math_us;
  };
  EXPECT_NEAR(math_us(32001, DType::kBF16) / math_us(32002, DType::kBF16), 6,
              0.1);
  EXPECT_NEAR(math_us(32001, DType::kF32) / math_us(32002, DType::kF32), 1,
              0.1);
}

TEST(CostModel, SegmentSumsAreReadAndWrittenForEachRow) {
  // Zeros; then indices and rows, and a sum read and written for each.
  EXPECT_DOUBLE_EQ(OpUs("%x: f32[10, 100], %i: i64[10]",
                        "segment_sum(%x, %i) {dim=0, size=50} : f32[50, 100]"),
                   20 + 0.08 + 4 + 4 + 4);
  // In f32, and then converted.
  EXPECT_DOUBLE_EQ(OpUs("%x: bf16[10, 100], %i: i64[10]",
                        "segment_sum(%x, %i) {dim=0, size=50} : bf16[50, 100]"),
                   20 + 0.08 + 2 + 4 + 4 + 20 + 10);
}

TEST(CostModel, PicksTheFastestProtocol) {
  Machine machine = TestMachine();
  machine.protocols[0].fraction = 0.5;
  machine.protocols[0].ring_base_us = 1;
  machine.protocols.push_back({.name = "wide", .ring_base_us = 10});
  CostModel costs(machine, ASYRA_VALUE(Mesh::Create({{"tp", 2}})));
  EXPECT_DOUBLE_EQ(costs.CollectiveUs(Kind::kReduceScatter, 2000, {0}), 3);
  EXPECT_DOUBLE_EQ(costs.CollectiveUs(Kind::kReduceScatter, 40000, {0}), 30);
}

// Between hosts its kernels wait for the network: computation that slows them
// to its pace costs nothing, to half of that half.
TEST(CostModel, ComputationSlowsKernelsNotTheNetwork) {
  Program program = Parse(R"(asyra 1 local
mesh (dp=2, tp=4)
program @f(%x: f32[4000000@dp], %y: f32[4000000@tp]) ->
    (f32[4000000], f32[4000000]) {
  %a = all_gather(%x) {dim=0, axes=dp} : f32[4000000]
  %b = all_gather(%y) {dim=0, axes=tp} : f32[4000000]
  return %a, %b
})");
  for (auto [nic_gbps, kept] :
       {std::pair{0.25, 1.0}, std::pair{0.75, 0.5 / 0.75},
        std::pair{1.0, 0.5}}) {
    Machine machine = TestMachine();
    machine.network_gbps.achievable = nic_gbps;
    CostModel costs(machine, program.mesh);
    std::vector<OpCost> op_costs = EstimateCosts(program, costs);
    EXPECT_NEAR(op_costs[0].beside_compute, kept, 0.01) << nic_gbps;
    EXPECT_EQ(op_costs[1].beside_compute, 0.5);
  }
}

TEST(CostModel, GraphsAreIssuedFaster) {
  Machine machine = TestMachine();
  machine.launch_us = 5;
  machine.graph_launch_us = 1;
  Program program = Parse(R"(asyra 1 local
program @f(%x: f32[500]) -> (f32[500]) {
  %a = neg(%x) : f32[500]
  return %a
})");
  EXPECT_EQ(EstimateCosts(program, CostModel(machine, {}))[0].launch_us, 5);
  CostModel graph(machine, {}, {.graph_launch = true});
  EXPECT_EQ(EstimateCosts(program, graph)[0].launch_us, 1);
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

TEST(CostModel, FewBlocksDoNotFillTheMemory) {
  Machine machine = TestMachine();
  machine.gpu.hbm_sms = 50;
  CostModel costs(machine, {});
  // Blocks of 16 KiB: one moves a fiftieth of a GB/s, 50 all of it.
  EXPECT_DOUBLE_EQ(costs.ComputeUs({.read_bytes = 16384}, DType::kF32),
                   16.384 * 50);
  EXPECT_DOUBLE_EQ(costs.ComputeUs({.read_bytes = 50 * 16384}, DType::kF32),
                   16.384 * 50);
  EXPECT_DOUBLE_EQ(costs.ComputeUs({.read_bytes = 100 * 16384}, DType::kF32),
                   16.384 * 100);
}

// The time of a matmul on the test machine with plenty of memory, whose 100
// SMs do 10^6 flops a us each.
double MatmulUs(std::string_view lhs, std::string_view rhs,
                std::string_view result) {
  Machine machine = TestMachine();
  machine.gpu.hbm_gbps.achievable = 1e5;
  Program program = Parse(fmt::format(
      R"(asyra 1 local
program @f(%a: f32[{0}], %b: f32[{1}]) -> (f32[{2}]) {{
  %c = matmul(%a, %b) : f32[{2}]
  return %c
}})",
      lhs, rhs, result));
  return EstimateCosts(program, CostModel(machine, {}))[0].time_us;
}

// 100 tiles of 64 x 64 are one wave, one more tile is a second one.
TEST(CostModel, MatmulsComeInWholeWaves) {
  double wave_us = 2.0 * 64 * 64 * 500 / 1e6;
  EXPECT_DOUBLE_EQ(MatmulUs("640, 500", "500, 640", "640, 640"), wave_us);
  EXPECT_DOUBLE_EQ(MatmulUs("640, 500", "500, 576", "640, 576"), wave_us);
  EXPECT_DOUBLE_EQ(MatmulUs("640, 500", "500, 641", "640, 641"), 2 * wave_us);
}

// Leading dimensions are rows of one matmul, unless both sides have them.
TEST(CostModel, BatchesFillTheirOwnTiles) {
  double wave_us = 2.0 * 64 * 64 * 500 / 1e6;
  EXPECT_DOUBLE_EQ(MatmulUs("10, 64, 500", "500, 640", "10, 64, 640"), wave_us);
  EXPECT_DOUBLE_EQ(MatmulUs("10, 65, 500", "10, 500, 640", "10, 65, 640"),
                   2 * wave_us);
}

// 10 tiles on 100 SMs: ten SMs share each, but not pieces below 512 of k.
TEST(CostModel, FewTilesAreCutAlongTheirDepth) {
  EXPECT_DOUBLE_EQ(MatmulUs("64, 10240", "10240, 640", "64, 640"),
                   2.0 * 64 * 64 * 1024 / 1e6);
  EXPECT_DOUBLE_EQ(MatmulUs("64, 1024", "1024, 640", "64, 640"),
                   2.0 * 64 * 64 * 512 / 1e6);
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
  std::vector<OpCost> op_costs = EstimateCosts(program, Model({{"tp", 2}}));
  ASSERT_EQ(op_costs.size(), 3u);
  EXPECT_FALSE(op_costs[0].is_free());
  EXPECT_TRUE(op_costs[1].is_free());
  EXPECT_TRUE(op_costs[2].is_free());
}

// As many CTAs as the library takes are no change, but of what is
// known; few hold less of the device and are slower.
TEST(CostModel, CollectivesHoldTheCtasTheyAreGiven) {
  Mesh mesh = ASYRA_VALUE(Mesh::Create({{"tp", 8}}));
  CostModel costs(ASYRA_VALUE(LoadMachine("h200x8")), mesh);
  auto cost = [&](int64_t ctas) {
    Builder builder(mesh, Stage::kLocal);
    Type partial(DType::kBF16, {8192, 8192});
    partial.partial = {0};
    ValueId x = builder.Input("x", partial);
    ASYRA_VALUE(builder.AddOne("all_reduce", {x},
                               {{"axes", AxisList{0}}, {"ctas", ctas}}));
    return EstimateCosts(builder.program(), costs)[0];
  };
  OpCost own = cost(0), same = cost(own.sms), few = cost(4);
  EXPECT_DOUBLE_EQ(same.time_us, own.time_us);
  EXPECT_EQ(same.sms, own.sms);
  EXPECT_LT(own.source, OpCost::kExtrapolated);
  EXPECT_EQ(same.source, OpCost::kExtrapolated);
  EXPECT_EQ(few.sms, 4);
  EXPECT_LT(few.held_sms, own.held_sms);
  // 4 x 20 GB/s carry a sixth of what 24 do.
  EXPECT_GT(few.time_us, 3 * own.time_us);
}

TEST(CostModel, KernelsOfPackedCollectivesComeAfterThePacking) {
  Program program = Parse(R"(asyra 1 local
mesh (tp=4)
program @f(%x: bf16[64@tp, 8192, 512], %y: bf16[64, 8192@tp, 512],
    %p: bf16[65, 8192, 512] partial(tp), %q: bf16[64, 8192, 512] partial(tp)) ->
    (bf16[64, 8192@tp, 512], bf16[64@tp, 8192, 512], bf16[65, 8192@tp, 512],
     bf16[64@tp, 8192, 512]) {
  %a = all_to_all(%x) {from=0, to=1, axes=tp} : bf16[64, 8192@tp, 512]
  %b = all_to_all(%y) {from=1, to=0, axes=tp} : bf16[64@tp, 8192, 512]
  %c = reduce_scatter(%p) {dim=1, axes=tp} : bf16[65, 8192@tp, 512]
  %d = reduce_scatter(%q) {dim=0, axes=tp} : bf16[64@tp, 8192, 512]
  return %a, %b, %c, %d
})");
  Machine machine = ASYRA_VALUE(LoadMachine("h200x8"));
  std::vector<OpCost> op_costs =
      EstimateCosts(program, CostModel(machine, program.mesh));
  // Each byte is read and written once.
  double bytes = 2 * 65 * 8192 * 512 * 2.0;
  double us =
      machine.gpu.kernel_us + bytes / (machine.gpu.hbm_gbps.achievable * 1e3);
  EXPECT_NEAR(op_costs[2].kernel_start_fraction, us / op_costs[2].time_us,
              1e-9);
  EXPECT_GT(op_costs[0].kernel_start_fraction, 0);
  // Cut along their first dimension, blocks are contiguous.
  EXPECT_EQ(op_costs[1].kernel_start_fraction, 0);
  EXPECT_EQ(op_costs[3].kernel_start_fraction, 0);
  for (const OpCost& cost : op_costs) EXPECT_LT(cost.kernel_start_fraction, 1);
}

TEST(CostModel, GuessesAreRefusedWhenAsked) {
  Program program = Parse(R"(asyra 1 local
program @f(%x: f32[500]) -> (f32[500]) {
  %a = neg(%x) : f32[500]
  %b = exp(%a) : f32[500]
  return %b
})");
  std::vector<OpCost> op_costs =
      EstimateCosts(program, CostModel(TestMachine(), {}));
  op_costs[0].source = OpCost::kInterpolated;
  EXPECT_EQ(MessageOf(CheckMeasured(program, op_costs)),
            "1 of 2 ops, 50.0 % of the time of all ops, are not measured; the "
            "first is %b = exp, whose cost is formula");
  op_costs[1].source = OpCost::kMeasured;
  EXPECT_TRUE(CheckMeasured(program, op_costs).ok());
}

TEST(CostModel, SaysWhereAnEstimateComesFrom) {
  auto source = [&](int64_t elements, std::vector<std::string> edits,
                    int64_t ranks = 8) {
    CostModel costs(ASYRA_VALUE(LoadMachine("h200x8", edits)),
                    ASYRA_VALUE(Mesh::Create({{"tp", ranks}})));
    ParsedCall call = ASYRA_VALUE(ParseCall(
        fmt::format("all_reduce(bf16[{}] partial(tp)) {{axes=tp}}", elements),
        costs.mesh()));
    Type result(DType::kBF16, {elements});
    return costs.Cost({*call.def, call.attrs, call.operands, {&result, 1}})
        .source;
  };
  EXPECT_EQ(source(1 << 19, {}), OpCost::kMeasured);  // 1 MiB
  EXPECT_EQ(source(1 << 20, {}), OpCost::kInterpolated);
  EXPECT_EQ(source(1 << 30, {}), OpCost::kExtrapolated);
  EXPECT_EQ(source(int64_t{1} << 34, {}), OpCost::kFormula);
  EXPECT_EQ(source(1 << 19, {}, 16), OpCost::kFormula);  // two hosts
  EXPECT_EQ(source(1 << 19, {"nodes=4"}), OpCost::kMeasured);
  EXPECT_EQ(source(1 << 19, {"host.link_gbps=900"}), OpCost::kExtrapolated);
}

}  // namespace
}  // namespace asyra
