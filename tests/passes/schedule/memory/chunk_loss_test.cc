// What the loss in chunks of tokens saves, and when it is chosen: where a step
// does not fit otherwise. tests/fixtures/chunk_loss has what it computes.
#include "passes/schedule/memory/chunk_loss.h"

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "models/models.h"
#include "passes/compile.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/search/recompute_search.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine.h"

namespace asyra {
namespace {

constexpr int64_t kBatch = 4, kSeq = 8192, kVocabulary = 65536;
constexpr int64_t kTokens = kBatch * kSeq;

Program Model() {
  return ASYRA_VALUE(BuiltinModel("llama3-8b", {{"batch", kBatch},
                                                {"seq", kSeq},
                                                {"layers", 2},
                                                {"vocabulary", kVocabulary}}));
}

// What the step takes in its own order, and all of its ops.
StepEstimate EstimateOf(int64_t chunks) {
  Program program = Model();
  CostModel costs(*LoadMachine("h200x2"), program.mesh);
  PassContext context{.costs = &costs};
  TrainOptions train{.loss_chunks = chunks};
  ASYRA_CHECK_OK(RunPasses(program, ShardPasses({}, train), context));
  Pipeline fuse = FusePasses(false, "estimated");
  RecomputeSearch search(std::move(program), fuse, context);
  return ASYRA_VALUE(search.Without("")).report.kept;
}

TEST(ChunkLoss, LogitsOfFewTokensAreThereAtOnce) {
  double logits = 2.0 * kTokens * kVocabulary;
  StepEstimate whole = EstimateOf(1);
  double before = 0;
  for (int chunks : {2, 4, 8}) {
    StepEstimate estimate = EstimateOf(chunks);
    auto saved =
        static_cast<double>(whole.device_bytes - estimate.device_bytes);
    // Some of it, where the largest values are others then.
    EXPECT_GT(saved, 0.6 * logits * (1 - 1.0 / chunks)) << chunks;
    EXPECT_GE(saved, before) << chunks;
    EXPECT_LT(estimate.ops_us, 1.1 * whole.ops_us) << chunks;
    before = saved;
  }
}

CompileResult StepIn(double gib, int64_t chunks) {
  CompileOptions options;
  options.train = TrainOptions{.loss_chunks = chunks};
  options.schedule.search_steps = 20;
  options.schedule.capacity_bytes = static_cast<int64_t>(gib * (1 << 30));
  RaisedProgram model = ASYRA_VALUE(Raise(Model(), options));
  return ASYRA_VALUE(Compile(model, Mesh(), *LoadMachine("h200x2"), options));
}

TEST(ChunkLoss, RunsInChunksWhereTheStepDoesNotFit) {
  CompileResult roomy = StepIn(140, 0);
  EXPECT_EQ(roomy.loss_chunks, 1);
  CompileResult whole = StepIn(140, 1);
  EXPECT_EQ(roomy.simulated->makespan_us, whole.simulated->makespan_us);
  const auto& choices = whole.schedule->candidates;
  auto chosen = absl::c_find_if(choices, [](const ScheduleChoice& choice) {
    return choice.rejected.empty();
  });
  ASSERT_NE(chosen, choices.end());
  // Less by the logits.
  double bytes = static_cast<double>(chosen->device_bytes) -
                 2 * static_cast<double>(kTokens * kVocabulary);
  double gib = bytes / (1 << 30);
  CompileResult tight = StepIn(gib, 0);
  EXPECT_GT(tight.loss_chunks, 1);
  CompileResult recomputed = StepIn(gib, 1);
  EXPECT_EQ(recomputed.loss_chunks, 1);
  EXPECT_LT(tight.simulated->makespan_us, recomputed.simulated->makespan_us);
  // What an estimate drops leaves room, and less is tried.
  EXPECT_TRUE(absl::c_any_of(
      recomputed.schedule->candidates, [&](const ScheduleChoice& choice) {
        return absl::StrContains(choice.name, "less recomputed") &&
               choice.rejected.empty() &&
               static_cast<double>(choice.device_bytes) <= gib * (1 << 30);
      }));
}

}  // namespace
}  // namespace asyra
