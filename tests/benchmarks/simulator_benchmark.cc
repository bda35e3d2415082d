// How fast the simulator is on a scheduled Llama 3 70B, in ops a second: run
// build/release/tests/simulator_benchmark.
#include "benchmark/benchmark.h"
#include "ir/support/check.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "simulator/exposure.h"
#include "simulator/simulate.h"

namespace asyra {
namespace {

struct Scheduled {
  Program program;
  CostModel costs;
};

const Scheduled& Llama70B() {
  static const Scheduled* const scheduled = [] {
    Program program = ASYRA_VALUE(BuiltinModel("llama3-70b", {}));
    program.mesh = ASYRA_VALUE(Mesh::Create({{"sp", 2}, {"tp", 4}}));
    CostModel costs(ASYRA_VALUE(LoadMachine("h200x8")), program.mesh);
    PassContext context;
    context.costs = &costs;
    ASYRA_CHECK_OK(RunPasses(program, ShardPasses(), context));
    ASYRA_CHECK_OK(
        RunPasses(program, "tile, start_collectives, reorder", context));
    return new Scheduled{std::move(program), std::move(costs)};
  }();
  return *scheduled;
}

template <typename Run>
void Measure(benchmark::State& state, Run run) {
  const Scheduled& scheduled = Llama70B();
  for (auto _ : state) run(scheduled);
  auto ops = static_cast<int64_t>(scheduled.program.ops.size());
  state.counters["ops"] = static_cast<double>(ops);
  state.SetItemsProcessed(state.iterations() * ops);
}

void BM_EstimateCosts(benchmark::State& state) {
  Measure(state, [](const Scheduled& s) {
    benchmark::DoNotOptimize(EstimateCosts(s.program, s.costs));
  });
}
BENCHMARK(BM_EstimateCosts)->Unit(benchmark::kMillisecond);

// What a search asks of each order it tries.
void BM_ReplayTime(benchmark::State& state) {
  CostedProgram costed(Llama70B().program, Llama70B().costs);
  ReplayOptions options = {
      .memory = false, .lower_bound = false, .critical_path = false};
  Measure(state, [&](const Scheduled&) {
    benchmark::DoNotOptimize(Replay(costed, options));
  });
}
BENCHMARK(BM_ReplayTime)->Unit(benchmark::kMillisecond);

void BM_ReplayTimeAndMemory(benchmark::State& state) {
  CostedProgram costed(Llama70B().program, Llama70B().costs);
  ReplayOptions options = {.lower_bound = false, .critical_path = false};
  Measure(state, [&](const Scheduled&) {
    benchmark::DoNotOptimize(Replay(costed, options));
  });
}
BENCHMARK(BM_ReplayTimeAndMemory)->Unit(benchmark::kMillisecond);

// Costs, replay, memory, bounds, critical path.
void BM_Simulate(benchmark::State& state) {
  Measure(state, [](const Scheduled& s) {
    benchmark::DoNotOptimize(Simulate(s.program, s.costs));
  });
}
BENCHMARK(BM_Simulate)->Unit(benchmark::kMillisecond);

void BM_ReportMemory(benchmark::State& state) {
  SimResult result = Simulate(Llama70B().program, Llama70B().costs);
  Measure(state, [&](const Scheduled& s) {
    benchmark::DoNotOptimize(
        ReportMemory(s.program, result, s.costs.machine()));
  });
}
BENCHMARK(BM_ReportMemory)->Unit(benchmark::kMillisecond);

void BM_ExplainExposure(benchmark::State& state) {
  SimResult result = Simulate(Llama70B().program, Llama70B().costs);
  Measure(state, [&](const Scheduled& s) {
    benchmark::DoNotOptimize(ExplainExposure(s.program, result));
  });
}
BENCHMARK(BM_ExplainExposure)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace asyra

BENCHMARK_MAIN();
