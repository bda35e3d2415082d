// How long the compiler takes on a full-size model: run
// build/release/tests/compile_benchmark.
#include <sys/resource.h>

#include <filesystem>

#include "benchmark/benchmark.h"
#include "frontends/onnx/import.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "ir/weights/shard_reader.h"
#include "ir/weights/weight_store.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/schedule/tile/merge_tiles.h"
#include "passes/search/schedule.h"
#include "simulator/cost/load_machine.h"
#include "simulator/replay/simulate.h"
#include "tests/support/sparse_weights.h"

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
    ASYRA_CHECK_OK(RunPasses(program, RaisePasses(), context));
    state.counters["ops"] = static_cast<double>(program.ops.size());
  }
  state.counters["peak_MB"] = PeakMegabytes();
}
BENCHMARK(BM_ImportAndRaiseLlama70B)->Unit(benchmark::kMillisecond);

// A rank of 16 reads its shards of a file of 141 GB, which is a hole: what is
// measured is the way, not a disk.
void BM_ReadRankOfLlama70B(benchmark::State& state) {
  Program program = ASYRA_VALUE(BuiltinModel("llama3-70b", {}));
  program.mesh = ASYRA_VALUE(Mesh::Create({{"tp", 16}}));
  CostModel costs(ASYRA_VALUE(LoadMachine("h200x8")), program.mesh);
  PassContext context;
  context.costs = &costs;
  ASYRA_CHECK_OK(RunPasses(program, ShardPasses(), context));
  std::string path =
      std::filesystem::temp_directory_path() / "llama70b.safetensors";
  ASYRA_CHECK_OK(WriteSparseWeights(program, path));
  program.weights = ASYRA_VALUE(ReadWeights(path));
  int64_t bytes = 0, before = ResidentBytes();
  for (auto _ : state) {
    auto shards = ASYRA_VALUE(ReadRankWeights(program, 5));
    bytes = 0;
    for (const Tensor& shard : shards) bytes += shard.bytes();
    state.counters["resident_GB"] =
        static_cast<double>(ResidentBytes() - before) / 1e9;
  }
  std::filesystem::remove(path);
  state.counters["rank_GB"] = static_cast<double>(bytes) / 1e9;
}
BENCHMARK(BM_ReadRankOfLlama70B)->Unit(benchmark::kMillisecond);

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
    ASYRA_CHECK_OK(RunPasses(local, ShardPasses(), context));
  }
}
BENCHMARK(BM_PlanAndPartition)->Unit(benchmark::kMillisecond);

// All candidates of where to cut are planned; the better dimension is kept.
void BM_TileLlama70B(benchmark::State& state) {
  Program program = ASYRA_VALUE(BuiltinModel("llama3-70b", {}));
  program.mesh = ASYRA_VALUE(Mesh::Create({{"sp", 2}, {"tp", 8}}));
  CostModel costs = Costs(program);
  PassContext context;
  context.costs = &costs;
  ASYRA_CHECK_OK(RunPasses(program, ShardPasses(), context));
  for (auto _ : state) {
    Program tiled = program;
    ASYRA_CHECK_OK(RunPasses(tiled, "tile{dim=auto}", context));
    state.counters["ops"] = static_cast<double>(tiled.ops.size());
  }
}
BENCHMARK(BM_TileLlama70B)->Unit(benchmark::kMillisecond);

// One group of matmuls of both lanes merged back.
void BM_MergeTiles(benchmark::State& state) {
  Program program = Llama8B();
  CostModel costs = Costs(program);
  PassContext context;
  context.costs = &costs;
  ASYRA_CHECK_OK(RunPasses(program, ShardPasses(), context));
  ASYRA_CHECK_OK(
      RunPasses(program, "tile, start_collectives, reorder", context));
  TileMerger merger(program);
  TileGroup logits;
  for (ValueId tile : program.ops.back().operands) {
    logits.push_back(DefUse(program).def[tile]);
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(ASYRA_VALUE(merger.Merge({logits})));
  }
}
BENCHMARK(BM_MergeTiles)->Unit(benchmark::kMillisecond);

void BM_Simulate(benchmark::State& state) {
  Program program = Llama8B();
  CostModel costs = Costs(program);
  PassContext context;
  context.costs = &costs;
  ASYRA_CHECK_OK(RunPasses(program, ShardPasses(), context));
  ASYRA_CHECK_OK(
      RunPasses(program, "tile, start_collectives, reorder", context));
  for (auto _ : state) {
    benchmark::DoNotOptimize(Simulate(program, costs));
  }
  state.SetItemsProcessed(state.iterations() *
                          static_cast<int64_t>(program.ops.size()));
}
BENCHMARK(BM_Simulate)->Unit(benchmark::kMillisecond);

// Streams, futures and the arena are checked after every pass.
void BM_VerifyLlama70B(benchmark::State& state) {
  Program program = ASYRA_VALUE(BuiltinModel("llama3-70b", {}));
  program.mesh = ASYRA_VALUE(Mesh::Create({{"sp", 2}, {"tp", 8}}));
  CostModel costs = Costs(program);
  PassContext context;
  context.costs = &costs;
  ASYRA_CHECK_OK(RunPasses(program, ShardPasses(), context));
  ASYRA_CHECK_OK(RunPasses(
      program, "tile, start_collectives, reorder, plan_memory", context));
  for (auto _ : state) ASYRA_CHECK_OK(Verify(program));
  state.SetItemsProcessed(state.iterations() *
                          static_cast<int64_t>(program.ops.size()));
}
BENCHMARK(BM_VerifyLlama70B)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace asyra

BENCHMARK_MAIN();
