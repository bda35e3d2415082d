// What follows once the order of a full-size model is chosen: streams, memory,
// and the checks of both. Run build/release/tests/memory_benchmark.
//
// Counters, in MiB of one device: `arena` as planned; `peak`, below which no
// arena of these lifetimes is; `simulated`, the arena that the simulator
// expects of the scheduled program, less what is outside of the arena here.
#include "benchmark/benchmark.h"
#include "ir/memory/memory_blocks.h"
#include "ir/memory/place_blocks.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/schedule/memory/plan_memory.h"
#include "simulator/cost/load_machine.h"
#include "simulator/replay/simulate.h"

namespace asyra {
namespace {

constexpr double kMiB = 1 << 20;

struct Model {
  std::string name;
  std::map<std::string, int64_t> dims;
  std::vector<Mesh::Axis> axes;
  int tiles;
};

const Model& ModelOf(int64_t index) {
  static const auto* const kModels = new std::vector<Model>{
      {"llama3-8b", {}, {{"sp", 2}, {"tp", 4}}, 2},
      {"llama3-8b", {{"batch", 4}}, {{"sp", 2}, {"tp", 4}}, 4},
      {"llama3-70b", {{"batch", 2}}, {{"sp", 2}, {"tp", 8}}, 2},
      {"llama3-70b", {{"batch", 8}}, {{"sp", 2}, {"tp", 8}}, 8}};
  return (*kModels)[index];
}

struct Scheduled {
  Program program;
  CostModel costs;
};

Scheduled Schedule(const Model& model) {
  Program program = ASYRA_VALUE(BuiltinModel(model.name, model.dims));
  program.mesh = ASYRA_VALUE(Mesh::Create(model.axes));
  CostModel costs(ASYRA_VALUE(LoadMachine("h200x8")), program.mesh);
  PassContext context;
  context.costs = &costs;
  ASYRA_CHECK_OK(RunPasses(program, ShardPasses(), context));
  ASYRA_CHECK_OK(RunPasses(
      program,
      fmt::format("tile{{tiles={}}}, start_collectives, reorder", model.tiles),
      context));
  return {std::move(program), std::move(costs)};
}

Program Allocated(Program program) {
  PassContext context;
  ASYRA_CHECK_OK(PlanMemoryPass(program, {}, context).status());
  return program;
}

void Count(const Scheduled& scheduled, benchmark::State& state) {
  const Program& program = scheduled.program;
  DefUse def_use(program);
  HappensBefore order(program, def_use);
  MemoryBlocks blocks(program, order, def_use);
  SimResult result = Simulate(program, scheduled.costs);
  MemoryReport report =
      ReportMemory(program, result, scheduled.costs.machine());
  Program allocated = Allocated(program);
  MemoryReport planned =
      ReportMemory(allocated, result, scheduled.costs.machine());
  int64_t arena = PlaceBlocks(blocks).bytes;
  auto outside = static_cast<double>(planned.arena_bytes - arena);
  state.counters["values"] = static_cast<double>(program.values.size());
  state.counters["arena"] = static_cast<double>(arena) / kMiB;
  state.counters["peak"] =
      static_cast<double>(blocks.PeakBytes(kArenaAlignment)) / kMiB;
  state.counters["simulated"] =
      (static_cast<double>(report.arena_bytes) - outside) / kMiB;
  state.SetLabel(fmt::format("{} {} {} tiles", ModelOf(state.range(0)).name,
                             ToString(program.mesh),
                             ModelOf(state.range(0)).tiles));
}

void BM_PlanMemory(benchmark::State& state) {
  Scheduled scheduled = Schedule(ModelOf(state.range(0)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(Allocated(scheduled.program));
  }
  Count(scheduled, state);
}
BENCHMARK(BM_PlanMemory)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

void BM_AssignStreams(benchmark::State& state) {
  Scheduled scheduled = Schedule(ModelOf(state.range(0)));
  double before_us = Simulate(scheduled.program, scheduled.costs).makespan_us;
  for (auto _ : state) {
    Program program = scheduled.program;
    PassContext context;
    context.costs = &scheduled.costs;
    ASYRA_CHECK_OK(RunPasses(program, "assign_streams", context));
    state.counters["saved_percent"] =
        100 - 100 * Simulate(program, scheduled.costs).makespan_us / before_us;
  }
}
BENCHMARK(BM_AssignStreams)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

void BM_VerifyAllocated(benchmark::State& state) {
  Program program = Allocated(Schedule(ModelOf(state.range(0))).program);
  for (auto _ : state) ASYRA_CHECK_OK(Verify(program));
  state.SetItemsProcessed(state.iterations() *
                          static_cast<int64_t>(program.ops.size()));
}
BENCHMARK(BM_VerifyAllocated)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace asyra

BENCHMARK_MAIN();
