// What fills the gaps of a training step, weight gradients above all, does not
// pile up memory.
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/schedule/order/list_scheduler.h"
#include "passes/schedule/order/order_search.h"
#include "passes/schedule/order/reorder.h"
#include "simulator/cost/load_machine.h"
#include "simulator/replay/replay.h"

namespace asyra {
namespace {

// Of 6 layers over tp 4, fused.
Program Step(const CostModel& costs, const Mesh& mesh) {
  Program program = ASYRA_VALUE(
      BuiltinModel("llama3-8b", {{"batch", 8}, {"seq", 2048}, {"layers", 6}}));
  program.mesh = mesh;
  PassContext context{.costs = &costs};
  EXPECT_EQ(RunPasses(program, ShardPasses({}, TrainOptions{}), context),
            absl::OkStatus());
  EXPECT_EQ(RunPasses(program, FusePasses(false, "estimated"), context),
            absl::OkStatus());
  return program;
}

// The order that hides most does in the first gap what backward reads of
// forward and needs no gradient for, and gradients of weights in the last. With
// as much memory as the unscheduled program takes, none of the gain is lost.
TEST(TrainMemory, GapsAreFilledWithinTheMemoryOfTheUnscheduledProgram) {
  Mesh mesh = *Mesh::Create({{"tp", 4}});
  CostModel costs(*LoadMachine("h200x8"), mesh);
  Program local = Step(costs, mesh);
  SimResult unscheduled = Replay(CostedProgram(local, costs));
  for (const char* passes : {"start_collectives", "tile, start_collectives"}) {
    SCOPED_TRACE(passes);
    Program program = local;
    PassContext context{.costs = &costs};
    ASSERT_EQ(RunPasses(program, passes, context), absl::OkStatus());
    CostedProgram costed(program, costs);
    SimResult free = Replay(costed, ListScheduler(costed).Run());
    OrderSearchResult found =
        SearchOrder(costed, {{"segrr", SegmentedRoundRobin(program)}},
                    {.steps = 40, .memory_bytes = unscheduled.peak_bytes});
    EXPECT_TRUE(found.fits);
    EXPECT_LE(found.peak_bytes, unscheduled.peak_bytes);
    RecordProperty("free_us", std::to_string(free.makespan_us));
    RecordProperty("found_us", std::to_string(found.makespan_us));
    EXPECT_LT(found.makespan_us, unscheduled.makespan_us * 0.985);
    EXPECT_LE(found.makespan_us, free.makespan_us);
  }
}

// A window bounds how far an op runs ahead of those before it.
TEST(TrainMemory, WindowsAreKept) {
  Mesh mesh = *Mesh::Create({{"tp", 4}});
  CostModel costs(*LoadMachine("h200x8"), mesh);
  Program program = Step(costs, mesh);
  PassContext context{.costs = &costs};
  ASSERT_EQ(RunPasses(program, "start_collectives", context), absl::OkStatus());
  CostedProgram costed(program, costs);
  for (int window : {1, 8, 64}) {
    std::vector<int> order = ListScheduler(costed).Run({.window = window});
    std::vector<bool> done(order.size(), false);
    int first_left = 0, farthest = 0;
    for (int op : order) {
      // Ops without cost go where they are needed.
      if (!costed.op_costs()[op].is_free()) {
        while (done[first_left] || costed.op_costs()[first_left].is_free()) {
          ++first_left;
        }
        farthest = std::max(farthest, op - first_left);
      }
      done[op] = true;
    }
    EXPECT_LT(farthest, window);
    EXPECT_GE(farthest, window / 2) << "the window changes nothing";
  }
}

}  // namespace
}  // namespace asyra
