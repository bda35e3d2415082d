// Which tiles are merged back.
#include "passes/schedule/tile/bucket.h"

#include <random>

#include "gtest/gtest.h"
#include "models/models.h"
#include "passes/analysis/shorten.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/schedule/tile/bucket_candidates.h"
#include "simulator/cost/load_machine.h"
#include "simulator/replay/simulate.h"

namespace asyra {
namespace {

TEST(BestSet, IsTheBestOfAllSets) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    int count = 1 + static_cast<int>(random() % 8);
    std::vector<double> values;
    std::vector<int64_t> costs;
    for (int i = 0; i < count; ++i) {
      values.push_back(static_cast<double>(random() % 21) - 5);
      costs.push_back(random() % 100);
    }
    constexpr int64_t kBudget = 256;  // then costs are not rounded
    double best = 0;
    for (int set = 0; set < 1 << count; ++set) {
      double value = 0;
      int64_t cost = 0;
      for (int i = 0; i < count; ++i) {
        if ((set >> i & 1) == 0) continue;
        value += values[i];
        cost += costs[i];
      }
      if (cost <= kBudget) best = std::max(best, value);
    }
    double value = 0;
    int64_t cost = 0;
    for (int i : BestSet(values, costs, kBudget)) {
      value += values[i];
      cost += costs[i];
    }
    EXPECT_EQ(value, best) << "round " << round;
    EXPECT_LE(cost, kBudget) << "round " << round;
  }
}

Program LocalLlama(int64_t batch, int64_t seq, Mesh mesh,
                   const CostModel& costs) {
  Program program =
      *BuiltinModel("llama3-8b", {{"batch", batch}, {"seq", seq}});
  program.mesh = std::move(mesh);
  PassContext context;
  context.costs = &costs;
  EXPECT_EQ(RunPasses(program, ShardPasses(), context), absl::OkStatus());
  return program;
}

// One token each of 64 sequences: matmuls read their weights and little else,
// so that every tile costs as much as the whole.
TEST(Bucket, MergesWhatIsBoundByWeights) {
  Mesh mesh = *Mesh::Create({{"tp", 8}});
  Machine machine = *LoadMachine("h200x8");
  machine.gpu.power.reset();
  CostModel costs(machine, mesh);
  Program program = Shorten(LocalLlama(64, 1, mesh, costs), 4);
  PassContext context;
  context.costs = &costs;
  ASSERT_EQ(RunPasses(program, "tile, start_collectives, reorder", context),
            absl::OkStatus());
  double before_us = Simulate(program, costs).makespan_us;
  absl::StatusOr<BucketResult> result = BucketTiles(program, costs, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->merged, 0);
  EXPECT_LT(result->found.makespan_us, 0.95 * before_us);
  EXPECT_EQ(Simulate(result->program, costs).makespan_us,
            result->found.makespan_us);
}

TEST(BucketCandidates, AreTheSameOfAShorterProgram) {
  Mesh mesh = *Mesh::Create({{"sp", 2}, {"tp", 4}});
  CostModel costs(*LoadMachine("h200x8"), mesh);
  Program whole = LocalLlama(4, 1024, mesh, costs);
  Program shorter = Shorten(whole, 4);
  EXPECT_LT(shorter.ops.size(), whole.ops.size() / 4);
  EXPECT_EQ(shorter.inputs.size(), whole.inputs.size());
  PassContext context;
  context.costs = &costs;
  for (Program* program : {&whole, &shorter}) {
    ASSERT_EQ(RunPasses(*program, "tile, start_collectives", context),
              absl::OkStatus());
  }
  std::vector<BucketCandidate> of_whole = BucketCandidates(whole);
  std::vector<BucketCandidate> of_shorter = BucketCandidates(shorter);
  ASSERT_EQ(of_whole.size(), of_shorter.size());
  for (size_t i = 0; i < of_whole.size(); ++i) {
    EXPECT_EQ(of_whole[i].collective, of_shorter[i].collective);
    EXPECT_EQ(whole.ops[of_whole[i].groups[0][0]].def,
              shorter.ops[of_shorter[i].groups[0][0]].def);
    EXPECT_GE(of_whole[i].places, of_shorter[i].places);
  }
}

}  // namespace
}  // namespace asyra
