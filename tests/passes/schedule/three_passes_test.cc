// The three passes of the ASYRA paper, one behind the other, as its figure 3
// shows them: tiling makes room for overlaps, reordering starts collectives
// earlier, bucketing merges a node that is slower in tiles and reaches 16 T.
// The text of the paper has no graph and no costs: these are ours.
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "passes/pass_manager.h"
#include "simulator/replay/replay.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

constexpr double kT = 10;  // us
constexpr double kNear = 1e-6;

// Nodes 1 and 4 compute and take 6 T whole, 3 T in each of two tiles; node 3
// communicates for as long, node 5 for 2 T and 1 T. Node 2 is a kernel of 3 T,
// whole or a tile.
constexpr std::string_view kProgram = R"(asyra 1 local
mesh (x=2)
program @f(%x: f32[4, 16@x], %a: f32[16@x, 8] weight, %b: f32[8, 6@x] weight)
    -> (f32[4, 6]) {
  %node1 = matmul(%x, %a) : f32[4, 8] partial(x)
  %node3 = all_reduce(%node1) {axes=x} : f32[4, 8]
  %node4 = matmul(%node3, %b) : f32[4, 6@x]
  %node5 = all_gather(%node4) {dim=1, axes=x} : f32[4, 6]
  %node2 = softmax(%node5) : f32[4, 6]
  return %node2
})";

Machine MachineOfT() {
  Machine machine = TestMachine();
  machine.gpu.hbm_gbps.achievable = 1e9;  // cutting and joining takes no time
  for (auto& [kind, params] : machine.collectives) {
    params.ctas = 1;
    params.beside_compute = 1;
  }
  Measurements measured;
  auto add = [&](const char* form, double whole_t, double tile_t) {
    measured.points.push_back(
        {fmt::format(fmt::runtime(form), 4), 2, whole_t * kT});
    measured.points.push_back(
        {fmt::format(fmt::runtime(form), 2), 2, tile_t * kT});
  };
  add("matmul(f32[{},16@x], f32[16@x,8])", 6, 3);
  add("all_reduce(f32[{},8] partial(x)) {{axes=x}}", 6, 3);
  add("matmul(f32[{},8], f32[8,6@x])", 6, 3);
  add("all_gather(f32[{},6@x]) {{dim=1, axes=x}}", 2, 1);
  add("softmax(f32[{},6])", 3, 3);
  machine.table = ASYRA_VALUE(CostTable::Calibrate(measured, machine));
  return machine;
}

TEST(ThreePasses, ReachSixteenT) {
  Program program = Parse(std::string(kProgram));
  CostModel costs(MachineOfT(), program.mesh);
  PassContext context;
  context.costs = &costs;
  // Each pass goes on from what the one before it made.
  auto makespan_t = [&](const std::string& passes) {
    Pipeline pipeline = ASYRA_VALUE(ParsePipeline(passes));
    ASYRA_CHECK_OK(RunPasses(program, pipeline, context));
    CostedProgram costed(program, costs);
    return Replay(costed, {.contention = false, .launch_scale = 0})
               .makespan_us /
           kT;
  };
  Program whole = program;
  EXPECT_NEAR(makespan_t("start_collectives"), 6 + 6 + 6 + 2 + 3, kNear);
  program = whole;
  // Node 2 is not shorter in tiles, and collectives still block.
  EXPECT_NEAR(makespan_t("tile{tiles=2}"), 6 + 6 + 6 + 2 + 3 + 3, kNear);
  // Each collective is hidden behind the other tile.
  EXPECT_NEAR(makespan_t("start_collectives, reorder"), 6 + 6 + 3 + 3, kNear);
  // One node 2 waits 1 T for the last of node 5 and saves 3 T.
  EXPECT_NEAR(makespan_t("bucket"), 16, kNear);
}

}  // namespace
}  // namespace asyra
