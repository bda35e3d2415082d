// Tokens in stripes, on cpu ranks that are late at random: forward, loss and
// gradients, scheduled, against one device.
#include "executor/cpu/run_on_cpu.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "tests/support/costs.h"
#include "tests/support/sanitized.h"

namespace asyra {
namespace {

using Axes = std::vector<Mesh::Axis>;

Program StripedLlama(std::string_view dtype) {
  Program model = ASYRA_VALUE(
      BuiltinModel("llama3-tiny", {{"layers", 1}, {"batch", 2}, {"seq", 32}}));
  PassContext context;
  ASYRA_CHECK_OK(
      RunPasses(model, {MakePass("set_dtype", {{"dtype", std::string(dtype)}})},
                context));
  return model;
}

void ExpectAlike(const std::vector<Tensor>& got,
                 const std::vector<Tensor>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    double largest = 0, error = 0;
    for (int64_t k = 0; k < want[i].num_elements(); ++k) {
      largest = std::max(largest, std::abs(want[i].Get(k)));
      error = std::max(error, std::abs(want[i].Get(k) - got[i].Get(k)));
    }
    EXPECT_LE(error, tolerance * std::max(largest, 1e-3)) << "output " << i;
  }
}

void ExpectSameOnRanks(const Axes& axes, std::string_view dtype,
                       double tolerance) {
  SCOPED_TRACE(
      fmt::format("{} {}", dtype, ToString(ASYRA_VALUE(Mesh::Create(axes)))));
  TrainOptions train;
  train.what = TrainOptions::What::kGradients;
  Program single = StripedLlama(dtype), local = single;
  local.mesh = ASYRA_VALUE(Mesh::Create(axes));
  CostModel costs = Costs(local);
  PassContext plain, on_mesh;
  on_mesh.costs = &costs;
  ASYRA_CHECK_OK(RunPasses(single, TrainPasses(train), plain));
  ASYRA_CHECK_OK(
      RunPasses(local, ShardPasses({.stripes = "always"}, train), on_mesh));
  ASYRA_CHECK_OK(RunPasses(local,
                           {MakePass("start_collectives", {{"early", true}}),
                            MakePass("plan_memory", {})},
                           on_mesh));
  std::vector<Tensor> inputs = RandomInputs(single, 7, 64);
  RunResult run = ASYRA_VALUE(RunOnCpu(
      local, inputs,
      {.inject_jitter_us = 200, .repeat = 3, .check_deterministic = true}));
  ExpectAlike(run.outputs, ASYRA_VALUE(Interpret(single, inputs)), tolerance);
}

TEST(StripedRuns, AreTheSameOnRanks) {
  ExpectSameOnRanks({{"sp.context", 2}, {"sp", 2}}, "f32", 2e-5);
  if (kSanitized) return;  // of any mesh, the same code
  for (const Axes& axes :
       {Axes{{"sp", 2}}, Axes{{"sp", 4}, {"tp", 2}},
        Axes{{"dp", 2}, {"sp", 2}, {"tp", 2}}, Axes{{"sp", 16}}}) {
    ExpectSameOnRanks(axes, "f64", 1e-12);
    ExpectSameOnRanks(axes, "f32", 2e-5);
  }
}

}  // namespace
}  // namespace asyra
