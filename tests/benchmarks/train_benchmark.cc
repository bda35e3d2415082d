// What a training loop costs beyond its steps: run
// build/release/tests/train_benchmark. The difference of the two times is that
// cost; both rows run the same small step.
#include <fstream>

#include "benchmark/benchmark.h"
#include "executor/cpu/cpu_device.h"
#include "executor/train/token_batches.h"
#include "executor/trainer.h"
#include "ir/parser.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

constexpr char kStep[] = R"(asyra 1 global
program @step(%ids: i64[4, 64], %labels: i64[4, 64], %rate: f32[],
    %table: f32[256, 64] param, %w: f32[64, 64] param)
    -> (f32[], f32[], f32[256, 64], f32[64, 64]) {
  %x = embedding(%table, %ids) : f32[4, 64, 64]
  %h = matmul(%x, %w) : f32[4, 64, 64]
  %h2 = matmul(%h, %w) : f32[4, 64, 64]
  %a = exp(%h2) : f32[4, 64, 64]
  %loss = reduce_mean(%a) {dims=[0, 1, 2], keep=false} : f32[]
  %norm = sqrt(%loss) : f32[]
  %scaled = mul(%w, %rate) : f32[64, 64]
  %next = sub(%w, %scaled) : f32[64, 64]
  return %loss as "loss", %norm as "norm", %table, %next alias %w
}
)";

TrainingPrograms Programs() {
  TrainingPrograms programs;
  programs.step = ASYRA_VALUE(ParseProgram(kStep));
  auto weights = std::make_shared<WeightStore>();
  weights->Set("table", Tensor(DType::kF32, {256, 64}));
  weights->Set("w", Tensor(DType::kF32, {64, 64}));
  programs.step.weights = weights;
  programs.evaluate = programs.init = programs.step;
  return programs;
}

class Loop {
 public:
  Loop() {
    std::string path = "/tmp/asyra_train_benchmark.txt";
    std::ofstream(path) << std::string(1 << 20, 'a');
    auto files = std::make_shared<const TokenFiles>(
        ASYRA_VALUE(TokenFiles::Open({path})));
    trainer_ = ASYRA_VALUE(Trainer::Create(Programs()));
    ASYRA_CHECK_OK(trainer_->Prepare(*device_, nullptr, {.evaluates = false}));
    data_ = ASYRA_VALUE(
        TokenBatches::Open(files, trainer_->programs().step, /*device=*/0));
  }
  void Step() {
    std::vector<Tensor> batch = ASYRA_VALUE(data_->Next());
    ASYRA_CHECK_OK(trainer_->Step(batch, {.rate = 1e-3}));
    benchmark::DoNotOptimize(trainer_->TakeMetrics());
  }
  ~Loop() { ASYRA_CHECK_OK(trainer_->Finish()); }

 private:
  std::unique_ptr<Device> device_ = CreateCpuDevice({.threads_per_stream = 1});
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<TokenBatches> data_;
};

// Steps one behind the other, always the same batch.
void BM_StepsAlone(benchmark::State& state) {
  auto device = CreateCpuDevice({.threads_per_stream = 1});
  TrainingPrograms programs = Programs();
  auto executor = ASYRA_VALUE(Executor::Load(programs.step));
  ASYRA_CHECK_OK(executor->Prepare(*device, nullptr, nullptr));
  Tensor rate = Tensor::FromDoubles(DType::kF32, {}, {1e-3});
  std::vector<Tensor> inputs = {Tensor(DType::kI64, {4, 64}),
                                Tensor(DType::kI64, {4, 64}), rate};
  for (auto _ : state) ASYRA_CHECK_OK(executor->Step(inputs));
}
BENCHMARK(BM_StepsAlone)->UseRealTime()->Unit(benchmark::kMicrosecond);

void BM_TrainerLoop(benchmark::State& state) {
  Loop loop;
  for (auto _ : state) loop.Step();
}
BENCHMARK(BM_TrainerLoop)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace asyra

BENCHMARK_MAIN();
