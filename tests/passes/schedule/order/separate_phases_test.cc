// With its phases apart, nothing of a training step's backward is before its
// forward, in any order that the search may take.
#include "passes/schedule/order/separate_phases.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "ir/happens_before.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/schedule/order/list_scheduler.h"
#include "passes/schedule/order/reorder.h"
#include "passes/search/schedule.h"
#include "passes/train/step_phase.h"
#include "simulator/cost/load_machine.h"
#include "simulator/replay/simulate.h"

namespace asyra {
namespace {

class SeparatePhasesTest : public testing::Test {
 protected:
  // Local, of two layers.
  Program Model(const std::optional<TrainOptions>& train) const {
    Program program = ASYRA_VALUE(BuiltinModel(
        "llama3-8b", {{"batch", 8}, {"seq", 1024}, {"layers", 2}}));
    program.mesh = mesh_;
    PassContext context{.costs = &costs_};
    ASYRA_CHECK_OK(RunPasses(program, ShardPasses({}, train), context));
    return program;
  }

  ScheduleResult Scheduled(const Program& program, bool apart) const {
    PassContext context{.costs = &costs_};
    ScheduleOptions options{
        .tiles = 2, .closed = {"separate_phases"}, .search_steps = 200};
    if (apart) options.taken = {MakePass("separate_phases")};
    return ASYRA_VALUE(Schedule(program, options, context));
  }

  const Mesh mesh_ = ASYRA_VALUE(Mesh::Create({{"tp", 4}}));
  const CostModel costs_{ASYRA_VALUE(LoadMachine("a800x8")), mesh_};
};

// Ops of backward before the last one of forward, in the order of issue, but
// for constants, which never run.
int EarlyInOrder(const Program& program) {
  std::vector<StepPhase> phases = PhasesOf(program);
  auto last = std::find(phases.rbegin(), phases.rend(), StepPhase::kForward);
  int early = 0;
  for (size_t i = 0; i < static_cast<size_t>(phases.rend() - last); ++i) {
    early += phases[i] == StepPhase::kBackward && !IsConstant(program.ops[i]);
  }
  return early;
}

// Those that begin before forward has ended.
int EarlyInTime(const Program& program, const SimResult& simulated) {
  std::vector<StepPhase> phases = PhasesOf(program);
  double end_us = 0;
  for (size_t i = 0; i < phases.size(); ++i) {
    if (phases[i] != StepPhase::kForward) continue;
    end_us = std::max(end_us, simulated.spans[i].end_us);
  }
  int early = 0;
  for (size_t i = 0; i < phases.size(); ++i) {
    early += phases[i] == StepPhase::kBackward &&
             simulated.spans[i].start_us < end_us;
  }
  return early;
}

TEST_F(SeparatePhasesTest, NothingOfBackwardIsBeforeForwardHasEnded) {
  Program local = Model(TrainOptions{});
  ScheduleResult interleaved = Scheduled(local, /*apart=*/false);
  EXPECT_GT(EarlyInOrder(interleaved.program), 0);
  EXPECT_GT(EarlyInTime(interleaved.program, interleaved.optimized), 0);
  ScheduleResult apart = Scheduled(local, /*apart=*/true);
  EXPECT_EQ(EarlyInOrder(apart.program), 0);
  EXPECT_EQ(EarlyInTime(apart.program, apart.optimized), 0);
  EXPECT_EQ(apart.tiles, 2);
}

TEST_F(SeparatePhasesTest, HoldsInEveryOrder) {
  Program program = Model(TrainOptions{});
  PassContext context{.costs = &costs_};
  ASYRA_CHECK_OK(
      RunPasses(program, "tile, start_collectives, hold_collectives", context));
  auto ordered = [&](const std::vector<int>& order) {
    Program copy = program;
    ApplyOrder(copy, order);
    return EarlyInOrder(copy);
  };
  EXPECT_GT(ordered(SegmentedRoundRobin(program)), 0);
  ASSERT_TRUE(SeparatePhases(program));
  EXPECT_FALSE(SeparatePhases(program));  // they are apart
  EXPECT_EQ(ordered(SerialOrder(program)), 0);
  EXPECT_EQ(ordered(SegmentedRoundRobin(program)), 0);
  EXPECT_EQ(ordered(OperatorRoundRobin(program)), 0);
  CostedProgram costed(program, costs_);
  EXPECT_EQ(ordered(ListScheduler(costed).Run()), 0);
  EXPECT_EQ(ordered(ListScheduler(costed).Run({.window = 8})), 0);
}

// As a decision on a candidate that is tiled: with the others in `--verbose`,
// and never slower.
TEST_F(SeparatePhasesTest, TheSearchTriesIt) {
  Program local = Model(TrainOptions{});
  PassContext context{.costs = &costs_};
  ScheduleResult found =
      ASYRA_VALUE(Schedule(local, {.tiles = 2, .search_steps = 200}, context));
  ScheduleResult interleaved = Scheduled(local, /*apart=*/false);
  EXPECT_LE(found.optimized.makespan_us,
            1.001 * interleaved.optimized.makespan_us);
  EXPECT_GT(found.steps, interleaved.steps);
}

TEST_F(SeparatePhasesTest, WhatIsNoTrainingStepStaysAsItIs) {
  Program local = Model(std::nullopt);
  EXPECT_EQ(ToString(Scheduled(local, /*apart=*/true).program),
            ToString(Scheduled(local, /*apart=*/false).program));
}

}  // namespace
}  // namespace asyra
