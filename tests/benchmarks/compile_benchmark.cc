// How long the compiler takes on a full-size model: run
// build/release/tests/compile_benchmark.
#include "benchmark/benchmark.h"
#include "ir/support/check.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/schedule.h"
#include "simulator/simulate.h"

namespace asyra {
namespace {

Program Llama8B() {
  Program program = ASYRA_VALUE(BuiltinModel("llama3-8b", {}));
  program.mesh = ASYRA_VALUE(Mesh::Create({{"sp", 2}, {"tp", 4}}));
  return program;
}

CostModel Costs(const Program& program) {
  return CostModel(ASYRA_VALUE(LoadMachine("h200x8")), program.mesh);
}

void BM_PlanAndPartition(benchmark::State& state) {
  Program program = Llama8B();
  CostModel costs = Costs(program);
  for (auto _ : state) {
    PassContext context;
    context.costs = &costs;
    Program local = program;
    ASYRA_CHECK_OK(RunPasses(local, kShardPipeline, context));
  }
}
BENCHMARK(BM_PlanAndPartition)->Unit(benchmark::kMillisecond);

void BM_Simulate(benchmark::State& state) {
  Program program = Llama8B();
  CostModel costs = Costs(program);
  PassContext context;
  context.costs = &costs;
  ASYRA_CHECK_OK(RunPasses(program, kShardPipeline, context));
  ASYRA_CHECK_OK(
      RunPasses(program, "tile, start_collectives, reorder", context));
  for (auto _ : state) {
    benchmark::DoNotOptimize(Simulate(program, costs));
  }
  state.SetItemsProcessed(state.iterations() *
                          static_cast<int64_t>(program.ops.size()));
}
BENCHMARK(BM_Simulate)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace asyra

BENCHMARK_MAIN();
