// What the executor adds to the kernels' own time, and what streams hide: run
// build/release/tests/executor_benchmark.
#include <algorithm>
#include <thread>

#include "benchmark/benchmark.h"
#include "executor/cpu/cpu_device.h"
#include "executor/cpu/gemm.h"
#include "executor/cpu/run_on_cpu.h"
#include "executor/cpu/threads.h"
#include "executor/executor.h"
#include "ir/parser.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

// Steps of a program on one rank.
class OneRank {
 public:
  explicit OneRank(const std::string& text)
      : device_(CreateCpuDevice()),
        executor_(
            ASYRA_VALUE(Executor::Load(ASYRA_VALUE(ParseProgram(text))))) {
    ASYRA_CHECK_OK(executor_->Prepare(*device_, nullptr, nullptr));
    for (const auto& input : executor_->inputs()) {
      inputs_.emplace_back(input.local.dtype, input.local.shape());
    }
  }
  void Step() { ASYRA_CHECK_OK(executor_->Step(inputs_)); }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Executor> executor_;
  std::vector<Tensor> inputs_;
};

// A chain of ops that compute next to nothing: items are ops.
void BM_OverheadOfAnOp(benchmark::State& state) {
  int64_t ops = state.range(0);
  std::string text = "asyra 1 global program @p(%v0: f32[1]) -> (f32[1]) {\n";
  for (int64_t i = 0; i < ops; ++i) {
    text += fmt::format("%v{} = neg(%v{}) : f32[1]\n", i + 1, i);
  }
  OneRank rank(text + fmt::format("return %v{} }}", ops));
  for (auto _ : state) rank.Step();
  state.SetItemsProcessed(state.iterations() * ops);
}
BENCHMARK(BM_OverheadOfAnOp)->Arg(100)->Arg(1000)->UseRealTime();

// The same with every op on another stream than the one before.
void BM_OverheadOfAnOpAcrossStreams(benchmark::State& state) {
  int64_t ops = state.range(0);
  std::string text = "asyra 1 scheduled program @p(%v0: f32[1]) -> (f32[1]) {";
  for (int64_t i = 0; i < ops; ++i) {
    text += fmt::format("%v{} = neg(%v{}) on s{} {} : f32[1]\n", i + 1, i,
                        i % 2, i > 0 ? fmt::format("after(%v{})", i) : "");
  }
  OneRank rank(text + fmt::format("return %v{} }}", ops));
  for (auto _ : state) rank.Step();
  state.SetItemsProcessed(state.iterations() * ops);
}
BENCHMARK(BM_OverheadOfAnOpAcrossStreams)->Arg(1000)->UseRealTime();

constexpr int64_t kRows = 512;

// Four matmuls of [rows, n] and [n, n] by the executor.
void BM_MatmulStep(benchmark::State& state) {
  int64_t n = state.range(0);
  std::string type = fmt::format("f32[{}, {}]", kRows, n);
  std::string text = fmt::format(
      "asyra 1 global program @p(%v0: {}, %w: f32[{}, {}]) -> ({}) {{\n", type,
      n, n, type);
  for (int i = 0; i < 4; ++i) {
    text += fmt::format("%v{} = matmul(%v{}, %w) : {}\n", i + 1, i, type);
  }
  OneRank rank(text + "return %v4 }");
  for (auto _ : state) rank.Step();
  state.counters["GFLOP/s"] =
      benchmark::Counter(8e-9 * static_cast<double>(kRows * n * n),
                         benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_MatmulStep)->Arg(512)->Arg(1024)->Arg(2048)->UseRealTime();

// The same four matmuls by the library that the kernels call.
void BM_MatmulAlone(benchmark::State& state) {
  int64_t n = state.range(0);
  SetComputeThreads(static_cast<int>(std::thread::hardware_concurrency()));
  auto gemm = ASYRA_VALUE(cpu::Gemm::Create(
      {.m = kRows, .n = n, .k = n, .a_row = n, .b_row = n, .c_row = n}));
  Tensor a(DType::kF32, {kRows, n}), b(DType::kF32, {n, n}),
      c(DType::kF32, {kRows, n});
  auto device = CreateCpuDevice();
  auto workspace = ASYRA_VALUE(device->Allocate(gemm->workspace_bytes()));
  for (auto _ : state) {
    for (int i = 0; i < 4; ++i) {
      ASYRA_CHECK_OK(
          gemm->Run(a.data(), b.data(), c.mutable_data(), workspace->data()));
    }
  }
  state.counters["GFLOP/s"] =
      benchmark::Counter(8e-9 * static_cast<double>(kRows * n * n),
                         benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_MatmulAlone)->Arg(512)->Arg(1024)->Arg(2048)->UseRealTime();

// Two tiles whose reductions each take `range` us over a slow link: one after
// the other, or each beside the other's computation.
void BM_TilesOverASlowLink(benchmark::State& state, bool overlapped) {
  std::string start = overlapped ? "start " : "", text = R"(asyra 1 scheduled
mesh (tp=2)
program @p(%x: f32[256, 512@tp], %w: f32[512@tp, 512]) -> (f32[256, 512]) {
)";
  for (int i = 0; i < 2; ++i) {
    text += fmt::format(
        "%x{0} = tile(%x) {{dim=0, part={0}, of=2}} on compute : "
        "f32[128, 512@tp]\n"
        "%p{0} = matmul(%x{0}, %w) on compute : f32[128, 512] partial(tp)\n"
        "%r{0} = {1}all_reduce(%p{0}) {{axes=tp}} on {2} : {3}f32[128, 512]\n",
        i, start, overlapped ? "tp" : "compute", overlapped ? "future " : "");
  }
  for (int i = 0; i < 2 && overlapped; ++i) {
    text += fmt::format("%y{0} = wait(%r{0}) on compute : f32[128, 512]\n", i);
  }
  text += fmt::format(
      "%y = untile(%{0}0, %{0}1) {{dim=0}} on compute : f32[256, 512]\n"
      "return %y }}",
      overlapped ? "y" : "r");
  Program program = ASYRA_VALUE(ParseProgram(text));
  std::vector<Tensor> inputs = {Tensor(DType::kF32, {256, 512}),
                                Tensor(DType::kF32, {512, 512})};
  RunOptions options;
  options.inject_comm_us = static_cast<double>(state.range(0));
  options.repeat = 20;
  for (auto _ : state) {
    RunResult run = ASYRA_VALUE(RunOnCpu(program, inputs, options));
    std::sort(run.step_us.begin(), run.step_us.end());
    state.SetIterationTime(run.step_us[run.step_us.size() / 2] / 1e6);
  }
}
BENCHMARK_CAPTURE(BM_TilesOverASlowLink, in_turn, false)
    ->Arg(2000)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_TilesOverASlowLink, overlapped, true)
    ->Arg(2000)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace asyra

BENCHMARK_MAIN();
