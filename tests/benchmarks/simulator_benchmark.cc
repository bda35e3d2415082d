// How fast the simulator is on a scheduled Llama 3 70B, in ops a second, and
// what a search that asks it costs on a training step: run
// build/release/tests/simulator_benchmark.
#include "benchmark/benchmark.h"
#include "ir/support/check.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/schedule/order/list_scheduler.h"
#include "passes/schedule/order/order_search.h"
#include "passes/schedule/order/reorder.h"
#include "passes/schedule/tile/bucket.h"
#include "passes/search/schedule.h"
#include "simulator/cost/load_machine.h"
#include "simulator/replay/exposure.h"
#include "simulator/replay/simulate.h"

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

// By a model that has not seen the program.
void BM_EstimateCosts(benchmark::State& state) {
  Measure(state, [](const Scheduled& s) {
    CostModel costs(s.costs.machine(), s.costs.mesh());
    benchmark::DoNotOptimize(EstimateCosts(s.program, costs));
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

// A training step of four layers of Llama 3 8B, not yet scheduled: what a
// search works on, whatever the number of layers.
const Scheduled& TrainingStep() {
  static const Scheduled* const step = [] {
    Program program = ASYRA_VALUE(BuiltinModel(
        "llama3-8b", {{"layers", 4}, {"batch", 1}, {"seq", 8192}}));
    program.mesh = ASYRA_VALUE(Mesh::Create({{"sp", 2}, {"tp", 4}}));
    CostModel costs(ASYRA_VALUE(LoadMachine("h200x8")), program.mesh);
    PassContext context;
    context.costs = &costs;
    ASYRA_CHECK_OK(
        RunPasses(program, ShardPasses({}, TrainOptions()), context));
    ASYRA_CHECK_OK(RunPasses(program, FusePasses(), context));
    return new Scheduled{std::move(program), std::move(costs)};
  }();
  return *step;
}

// The same in two tiles, in the order of the program.
const Scheduled& TiledStep() {
  static const Scheduled* const tiled = [] {
    auto* step = new Scheduled(TrainingStep());
    PassContext context;
    context.costs = &step->costs;
    ASYRA_CHECK_OK(RunPasses(step->program,
                             "tile{tiles=2, dim=sequence}, start_collectives",
                             context));
    return step;
  }();
  return *tiled;
}

void BM_ListSchedule(benchmark::State& state) {
  CostedProgram costed(TiledStep().program, TiledStep().costs);
  ListScheduler scheduler(costed);
  ListOptions options = {.lookahead_us = 10,
                         .memory_bytes = int64_t{100} << 30};
  for (auto _ : state) benchmark::DoNotOptimize(scheduler.Run(options));
  state.SetItemsProcessed(state.iterations() *
                          static_cast<int64_t>(costed.program().ops.size()));
}
BENCHMARK(BM_ListSchedule)->Unit(benchmark::kMillisecond);

// Orders a second: each is built, and replayed as far as it may be the best.
void BM_SearchOrder(benchmark::State& state) {
  CostedProgram costed(TiledStep().program, TiledStep().costs);
  std::vector<NamedOrder> seeds = {
      {"serial", SerialOrder(TiledStep().program)}};
  OrderSearchOptions options = {.steps = 400};
  for (auto _ : state) {
    benchmark::DoNotOptimize(SearchOrder(costed, seeds, options));
  }
  state.SetItemsProcessed(state.iterations() * options.steps);
}
BENCHMARK(BM_SearchOrder)->Unit(benchmark::kMillisecond);

void BM_BucketTiles(benchmark::State& state) {
  const Scheduled& tiled = TiledStep();
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        ASYRA_VALUE(BucketTiles(tiled.program, tiled.costs, {})));
  }
}
BENCHMARK(BM_BucketTiles)->Unit(benchmark::kMillisecond);

// The first round of the search, and what comes before and after it.
void BM_Schedule(benchmark::State& state) {
  ScheduleOptions options;
  options.search_steps = SearchRounds(1)[0];
  for (auto _ : state) {
    PassContext context;
    context.costs = &TrainingStep().costs;
    benchmark::DoNotOptimize(
        ASYRA_VALUE(Schedule(TrainingStep().program, options, context)));
  }
}
BENCHMARK(BM_Schedule)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace asyra

BENCHMARK_MAIN();
