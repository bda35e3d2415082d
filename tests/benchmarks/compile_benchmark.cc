// How long the compiler takes on a full-size model: run
// build/release/tests/compile_benchmark.
#include <sys/resource.h>

#include "benchmark/benchmark.h"
#include "frontends/onnx/import.h"
#include "ir/support/check.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/schedule.h"
#include "simulator/simulate.h"

namespace asyra {
namespace {

// The most memory the process has had so far.
double PeakMegabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

// The first to run, so that the peak is its own. 13,358 nodes.
void BM_ImportAndRaiseLlama70B(benchmark::State& state) {
  for (auto _ : state) {
    Program program = ASYRA_VALUE(
        ImportOnnx(ASYRA_SOURCE_DIR "/models/llama3-70b-op23/model.onnx",
                   {.dims = {{"batch", 1}, {"seq", 8192}}}));
    PassContext context;
    ASYRA_CHECK_OK(RunPasses(program, kRaisePipeline, context));
    state.counters["ops"] = static_cast<double>(program.ops.size());
  }
  state.counters["peak_MB"] = PeakMegabytes();
}
BENCHMARK(BM_ImportAndRaiseLlama70B)->Unit(benchmark::kMillisecond);

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
