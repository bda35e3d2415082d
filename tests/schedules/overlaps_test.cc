// Whole programs with overlaps wherever they may be formed, their chunk plans
// carried out on cpu ranks whose kernels, copies and signals are late at
// random: they compute what the program before computes.
#include <cmath>

#include "absl/algorithm/container.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/overlap.h"
#include "ir/verify/verifier.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/schedule/transport/form_overlaps.h"
#include "passes/search/schedule.h"
#include "tests/schedules/on_streams.h"
#include "tests/support/costs.h"

namespace asyra {
namespace {

int Overlaps(const Program& program) {
  return static_cast<int>(absl::c_count_if(
      program.ops, [](const Op& op) { return IsOverlap(*op.def); }));
}

void ExpectSame(const Program& program, absl::Span<const Tensor> inputs,
                absl::Span<const Tensor> want, uint64_t seed) {
  SCOPED_TRACE(ToString(program));
  ASSERT_EQ(Verify(program), absl::OkStatus());
  DelayedPlatform platform(seed);
  auto got = RunOnThreads(program, inputs, platform,
                          {.executor = {.debug_memory = true},
                           .inject_jitter_us = 100,
                           .repeat = 2,
                           .check_deterministic = true});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(Overlaps(got->program), Overlaps(program));
  ASSERT_EQ(got->outputs.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    for (int64_t e = 0; e < want[i].num_elements(); ++e) {
      double expected = want[i].Get(e);
      ASSERT_NEAR(got->outputs[i].Get(e), expected,
                  1e-5 * (1 + std::abs(expected)))
          << "output " << i << ", element " << e;
    }
  }
}

class Overlapped : public testing::TestWithParam<std::vector<Mesh::Axis>> {};

TEST_P(Overlapped, ModelsComputeTheSame) {
  Program local = ASYRA_VALUE(BuiltinModel("llama3-tiny", {{"seq", 16}}));
  local.mesh = ASYRA_VALUE(Mesh::Create(GetParam()));
  CostModel costs = Costs(local);
  PassContext context;
  context.costs = &costs;
  ASYRA_CHECK_OK(RunPasses(local, ShardPasses(), context));
  std::vector<Tensor> inputs = RandomInputs(local, 1, 256);
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(local, inputs));
  for (int tiles : {1, 2}) {
    ScheduleOptions options{.tiles = tiles, .search_steps = 100};
    options.closed = {"fuse_reductions"};
    Program program = ASYRA_VALUE(Schedule(local, options, context)).program;
    int formed = ASYRA_VALUE(
        FormOverlaps(program, {.taking = OverlapTaking::kAll}, costs));
    EXPECT_GT(formed, 0);
    ASYRA_CHECK_OK(RunPasses(program, LowerPasses(), context));
    ExpectSame(program, inputs, want, tiles);
  }
}

INSTANTIATE_TEST_SUITE_P(Small, Overlapped,
                         testing::Values(std::vector<Mesh::Axis>{{"tp", 2}},
                                         std::vector<Mesh::Axis>{{"tp", 4}},
                                         std::vector<Mesh::Axis>{{"dp", 2},
                                                                 {"tp", 2}}));

class Joined : public testing::TestWithParam<int> {};

// A step of params that ZeRO shards: each weight's gradient is scattered.
TEST_P(Joined, StepsComputeTheSame) {
  Program local = ASYRA_VALUE(BuiltinModel(
      "llama3-tiny", {{"seq", 16}, {"batch", int64_t{GetParam()}}}));
  local.mesh = ASYRA_VALUE(Mesh::Create({{"dp", GetParam()}}));
  CostModel costs = Costs(local);
  PassContext context;
  context.costs = &costs;
  TrainOptions train{.optimizer = "sgd", .zero = "3"};
  ASYRA_CHECK_OK(RunPasses(local, ShardPasses({}, train), context));
  std::vector<Tensor> inputs = RandomInputs(local, 1, 256);
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(local, inputs));
  ScheduleOptions options{.tiles = 1, .bucket = false, .search_steps = 100};
  options.closed = {"fuse_reductions"};
  Program program = ASYRA_VALUE(Schedule(local, options, context)).program;
  int formed = ASYRA_VALUE(FormOverlaps(
      program, {.taking = OverlapTaking::kAll, .joined = true}, costs));
  EXPECT_GE(formed, 4);
  int64_t gradients = 0;
  for (const Op& op : program.ops) {
    if (IsOverlap(*op.def)) gradients += std::ssize(op.results);
  }
  EXPECT_EQ(gradients, 2 * formed);
  ASYRA_CHECK_OK(RunPasses(program, LowerPasses(), context));
  ExpectSame(program, inputs, want, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Ranks, Joined, testing::Values(2, 4));

}  // namespace
}  // namespace asyra
