// The formulas alone, without the table of measurements, against what was
// measured on 8x H200: the medians of one run, NCCL 2.28.9 and cuBLASLt 13.1,
// 2026-11-20. With the table: cost_table_test.cc.
#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "simulator/cost/load_machine.h"
#include "simulator/replay/simulate.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

Mesh MeshOf(std::vector<Mesh::Axis> axes) {
  return ASYRA_VALUE(Mesh::Create(std::move(axes)));
}

CostModel H200(int64_t ranks) {
  Machine machine = ASYRA_VALUE(LoadMachine("h200x8"));
  machine.table = nullptr;
  return CostModel(std::move(machine), MeshOf({{"tp", ranks}}));
}

struct Matmul {
  int64_t m, n, k;
  double us;
};
constexpr Matmul kMatmuls[] = {
    {8192, 1536, 4096, 128.5},  {4096, 1536, 4096, 66.7},
    {2048, 1536, 4096, 34.0},   {1024, 1536, 4096, 18.7},
    {8192, 4096, 1024, 94.2},   {4096, 4096, 1024, 50.6},
    {2048, 4096, 1024, 26.6},   {1024, 4096, 1024, 15.1},
    {8192, 7168, 4096, 650.2},  {4096, 7168, 4096, 346.3},
    {2048, 7168, 4096, 167.9},  {1024, 7168, 4096, 101.0},
    {8192, 4096, 3584, 299.4},  {4096, 4096, 3584, 170.5},
    {2048, 4096, 3584, 89.1},   {1024, 4096, 3584, 47.1},
    {8192, 3584, 4096, 299.3},  {4096, 3584, 4096, 182.2},
    {2048, 3584, 4096, 98.9},   {1024, 3584, 4096, 45.3},
    {8192, 7168, 8192, 1339.7}, {4096, 7168, 8192, 686.0},
    {2048, 7168, 8192, 336.5},  {1024, 7168, 8192, 207.0},
    {8192, 8192, 3584, 627.9},  {4096, 8192, 3584, 362.0},
    {2048, 8192, 3584, 182.5},  {1024, 8192, 3584, 92.8},
    {8192, 8192, 8192, 1681.0}, {4096, 8192, 8192, 819.0},
    {2048, 8192, 8192, 394.9},  {1024, 8192, 8192, 197.7},
    {64, 7168, 4096, 20.5},     {32, 7168, 4096, 19.7},
    {16, 7168, 4096, 19.6},
};

TEST(H200, MatmulsComeOutWithinSixteenPercent) {
  CostModel costs = H200(8);
  double squares = 0;
  for (const Matmul& row : kMatmuls) {
    ParsedCall call =
        ASYRA_VALUE(ParseCall(fmt::format("matmul(bf16[{},{}], bf16[{},{}])",
                                          row.m, row.k, row.k, row.n),
                              {}));
    Type result(DType::kBF16, {row.m, row.n});
    double us = costs.Cost({*call.def, call.attrs, call.operands, {&result, 1}})
                    .time_us;
    double error = us / row.us - 1;
    squares += error * error;
    EXPECT_NEAR(error, 0, 0.16) << row.m << " " << row.n << " " << row.k << ": "
                                << us << " us, measured " << row.us;
  }
  EXPECT_LT(std::sqrt(squares / std::size(kMatmuls)), 0.10);
}

// Causal attention of cuDNN, head size 128, one group of heads.
struct AttentionRow {
  int64_t batch, heads, length;
  double us;
};
constexpr AttentionRow kAttention[] = {
    {2, 4, 8192, 284}, {1, 8, 32768, 3335}, {1, 8, 65536, 14186}};

TEST(H200, AttentionComesOutWithinSixteenPercent) {
  CostModel costs = H200(8);
  for (const AttentionRow& row : kAttention) {
    std::string keys = fmt::format("bf16[{},{},1,128]", row.batch, row.length);
    ParsedCall call = ASYRA_VALUE(ParseCall(
        fmt::format("attention(bf16[{},{},{},128], {}, {}) {{causal=true, "
                    "scale=0.0884}}",
                    row.batch, row.length, row.heads, keys, keys),
        {}));
    OpCost cost = costs.Cost(
        {*call.def, call.attrs, call.operands, {&call.operands[0], 1}});
    EXPECT_NEAR(cost.time_us / row.us, 1, 0.16) << row.length;
  }
}

// Sizes 16 KiB, 64 KiB, ... 256 MiB.
struct CollectiveRow {
  CollectiveKind kind;
  int64_t ranks;
  double us[8];
};
constexpr CollectiveRow kCollectives[] = {
    {CollectiveKind::kAllReduce,
     8,
     {16.8, 18.8, 19.4, 25.5, 48.7, 116.6, 361.4, 1349.8}},
    {CollectiveKind::kAllGather,
     8,
     {11.4, 13.5, 13.8, 17.2, 33.4, 65.9, 204.9, 720.2}},
    {CollectiveKind::kReduceScatter,
     8,
     {10.8, 11.6, 11.9, 14.4, 29.7, 68.5, 197.8, 716.2}},
    {CollectiveKind::kAllToAll,
     8,
     {13.9, 14.0, 15.3, 15.9, 39.0, 71.4, 212.9, 755.9}},
    {CollectiveKind::kAllReduce,
     4,
     {11.4, 11.2, 11.7, 18.3, 40.8, 99.9, 319.4, 1179.9}},
    {CollectiveKind::kAllGather,
     4,
     {11.2, 11.6, 10.8, 13.5, 36.9, 67.0, 190.1, 659.9}},
    {CollectiveKind::kReduceScatter,
     4,
     {9.5, 9.7, 10.2, 11.7, 33.0, 58.0, 186.6, 669.5}},
    {CollectiveKind::kAllToAll,
     4,
     {12.3, 14.1, 16.1, 15.3, 24.1, 65.0, 185.1, 640.1}},
    {CollectiveKind::kAllReduce,
     2,
     {9.9, 11.0, 10.5, 14.3, 33.0, 77.4, 246.9, 890.0}},
    {CollectiveKind::kAllGather,
     2,
     {9.7, 10.1, 11.0, 11.4, 26.1, 53.2, 156.8, 549.4}},
    {CollectiveKind::kReduceScatter,
     2,
     {10.2, 10.8, 11.5, 10.5, 23.4, 50.2, 164.4, 587.5}},
    {CollectiveKind::kAllToAll,
     2,
     {8.3, 8.5, 8.4, 12.7, 19.8, 52.3, 137.4, 471.4}},
};

// Nothing but the link's bandwidth was fitted.
TEST(H200, CollectivesComeOutFromPublishedLatencies) {
  std::vector<double> errors;
  for (const CollectiveRow& row : kCollectives) {
    CostModel costs = H200(row.ranks);
    double bytes = 16384;
    for (double measured : row.us) {
      double us = costs.CollectiveUs(row.kind, bytes, {0});
      errors.push_back(std::abs(us / measured - 1));
      EXPECT_LT(errors.back(), 0.40)
          << static_cast<int>(row.kind) << " of " << bytes << " bytes over "
          << row.ranks << ": " << us << " us, measured " << measured;
      bytes *= 4;
    }
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 0.13);
}

// A matmul of 8192 x 7168 x 4096 beside a collective of 128 MiB that began
// with it: both times, alone and together.
struct Beside {
  std::string_view op;
  std::string_view from, to;  // dims of 8192 rows
  int64_t ranks;
  double matmul_us, matmul_beside_us;
  double collective_us, collective_beside_us;
};
constexpr std::string_view kReduce = "all_reduce(%x) {axes=tp}";
constexpr std::string_view kGather = "all_gather(%x) {dim=0, axes=tp}";
constexpr std::string_view kScatter = "reduce_scatter(%x) {dim=0, axes=tp}";
// Contiguous chunks, as those that were measured: nothing is packed.
constexpr std::string_view kExchange = "all_to_all(%x) {from=1, to=0, axes=tp}";
constexpr Beside kBeside[] = {
    {kReduce, "8192, 8192", "8192, 8192", 8, 589.4, 732.6, 690.1, 850.5},
    {kGather, "8192@tp, 8192", "8192, 8192", 8, 649.2, 698.2, 396.0, 710.4},
    {kScatter, "8192, 8192", "8192@tp, 8192", 8, 645.5, 697.8, 383.5, 711.6},
    {kExchange, "65536, 8192@tp", "65536@tp, 8192", 8, 642.7, 682.7, 399.3,
     659.5},
    {kReduce, "8192, 8192", "8192, 8192", 4, 589.1, 704.2, 612.9, 725.0},
    {kGather, "8192@tp, 8192", "8192, 8192", 4, 671.6, 743.1, 367.1, 704.3},
    {kScatter, "8192, 8192", "8192@tp, 8192", 4, 677.7, 727.9, 358.9, 688.1},
    {kExchange, "32768, 8192@tp", "32768@tp, 8192", 4, 689.0, 669.9, 351.8,
     641.3},
};

TEST(H200, MatmulAndCollectiveSlowEachOtherAsMeasured) {
  for (const Beside& row : kBeside) {
    Program program = Parse(fmt::format(
        R"(asyra 1 scheduled
mesh (tp={3})
program @f(%x: bf16[{1}]{4}, %a: bf16[8192, 4096], %b: bf16[4096, 7168])
    -> (bf16[{2}], bf16[8192, 7168]) {{
  %f = start {0} on comm : future bf16[{2}]
  %c = matmul(%a, %b) on compute : bf16[8192, 7168]
  %y = wait(%f) on compute : bf16[{2}]
  return %y, %c
}})",
        row.op, row.from, row.to, row.ranks,
        row.op == kReduce || row.op == kScatter ? " partial(tp)" : ""));
    // The measured times alone, so that only the sharing is judged.
    std::vector<OpCost> op_costs = EstimateCosts(program, H200(row.ranks));
    op_costs[0].time_us = row.collective_us;
    op_costs[1].time_us = row.matmul_us;
    SimResult result = Replay(program, op_costs, {.launch_scale = 0});
    EXPECT_NEAR(result.spans[0].end_us / row.collective_beside_us, 1, 0.15)
        << row.op << " " << row.ranks;
    EXPECT_NEAR(result.spans[1].end_us / row.matmul_beside_us, 1, 0.15)
        << row.op << " " << row.ranks;
  }
}

}  // namespace
}  // namespace asyra
