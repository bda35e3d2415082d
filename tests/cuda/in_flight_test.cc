// Steps in flight on a GPU: inputs of the host are pinned copies, views are
// where the GPU reads and writes, and the caller's stream is all that orders
// them; launched op by op and as a graph.
#include <cuda_runtime.h>

#include "executor/cuda/device/cuda_device.h"
#include "executor/executor.h"
#include "executor/state_set.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/weights/weight_store.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

constexpr int64_t kElements = 1 << 16;
constexpr int kSteps = 100;
constexpr char kProgram[] = R"(asyra 1 global
program @p(%sum: f32[] state, %x: f32[65536]) -> (f32[65536], f32[], f32[]) {
  %y = mul(%x, %x) : f32[65536]
  %largest = reduce_max(%y) {dims=[0], keep=false} : f32[]
  %next = add(%sum, %largest) : f32[]
  return %y as "squares", %largest as "largest", %next alias %sum
}
)";
// Two that share a param.
constexpr char kAdder[] = R"(asyra 1 global
program @adder(%sum: f32[] param, %x: f32[65536]) -> (f32[]) {
  %largest = reduce_max(%x) {dims=[0], keep=false} : f32[]
  %next = add(%sum, %largest) : f32[]
  return %next alias %sum
}
)";
constexpr char kReader[] = R"(asyra 1 global
program @reader(%sum: f32[] param) -> (f32[]) {
  %twice = add(%sum, %sum) : f32[]
  return %twice as "twice"
}
)";

#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)

Tensor Filled(double value) {
  return Tensor::FromDoubles(DType::kF32, {kElements},
                             std::vector<double>(kElements, value));
}

class CudaInFlight : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    auto gpus = CountCudaDevices();
    if (!gpus.ok() || *gpus < 1) GTEST_SKIP() << "needs a GPU";
    device_ = ASYRA_VALUE(CreateCudaDevice({.graphs = GetParam()}));
    states_ = ASYRA_VALUE(StateSet::Create(*device_));
    executor_ = Prepared(kProgram);
    EXPECT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  void TearDown() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  std::unique_ptr<Executor> Prepared(const char* text,
                                     ExecutorOptions options = {},
                                     const WeightStore* values = nullptr) {
    options.states = states_;
    auto executor = ASYRA_VALUE(Executor::Load(Parse(text)));
    ASYRA_CHECK_OK(executor->Prepare(*device_, nullptr, values, options));
    return executor;
  }

  // Memory of the host that streams read and write by themselves: a value for
  // each step.
  class Values {
   public:
    Values() {
      EXPECT_CUDA(cudaMallocHost(&data_, kSteps * kElements * sizeof(float)));
      for (int64_t i = 0; i < kSteps * kElements; ++i) {
        data_[i] = static_cast<float>(i / kElements);
      }
    }
    ~Values() { cudaFreeHost(data_); }
    float* of(int step) { return data_ + step * kElements; }

   private:
    float* data_ = nullptr;
  };

  std::unique_ptr<Device> device_;
  std::shared_ptr<StateSet> states_;
  std::unique_ptr<Executor> executor_;
  cudaStream_t stream_ = nullptr;
};

TEST_P(CudaInFlight, EachStepKeepsItsInputsAndScalars) {
  double sum = 0;
  for (int step = 0; step < kSteps; ++step) {
    Tensor x = Filled(step);
    EXPECT_EQ(ASYRA_VALUE(executor_->Enqueue({x})), step);
    // It was copied: what the host does to it from here on is not seen.
    for (int64_t i = 0; i < kElements; ++i) x.Set(i, -1e6);
    sum += step * step;
    if (step == 0) continue;
    EXPECT_EQ(ASYRA_VALUE(executor_->Await(step - 1)),
              std::vector<double>({1.0 * (step - 1) * (step - 1)}));
  }
  ASYRA_CHECK_OK(executor_->Await(kSteps - 1).status());
  EXPECT_EQ(ASYRA_VALUE(states_->Get("sum")).Get(0), sum);
  EXPECT_EQ(ASYRA_VALUE(executor_->Output("squares")).Get(kElements - 1),
            (kSteps - 1) * (kSteps - 1));
}

// The caller's stream fills the input and reads the output of each step; the
// host waits once, at the end.
TEST_P(CudaInFlight, ViewsAreOrderedByTheStreamOfTheCaller) {
  DeviceView x = ASYRA_VALUE(executor_->InputView("x"));
  DeviceView y = ASYRA_VALUE(executor_->OutputView("squares"));
  EXPECT_EQ(x.device, "cuda");
  EXPECT_EQ(x.shape, Shape({kElements}));
  Values given, taken;
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_CUDA(cudaMemcpyAsync(x.data, given.of(step), x.bytes(),
                                cudaMemcpyDefault, stream_));
    EXPECT_EQ(ASYRA_VALUE(executor_->EnqueueViews({x}, stream_)), step);
    EXPECT_CUDA(cudaMemcpyAsync(taken.of(step), y.data, y.bytes(),
                                cudaMemcpyDefault, stream_));
  }
  EXPECT_CUDA(cudaStreamSynchronize(stream_));
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_EQ(taken.of(step)[0], step * step);
    EXPECT_EQ(taken.of(step)[kElements - 1], step * step);
  }
  ASYRA_CHECK_OK(executor_->Await(kSteps - 1).status());
}

// Copied from device to device before the step, which the stream may overwrite
// at once.
TEST_P(CudaInFlight, MemoryFromElsewhereIsCopied) {
  Values given;
  DeviceView x = ASYRA_VALUE(executor_->InputView("x"));
  auto memory = ASYRA_VALUE(device_->Allocate(x.bytes()));
  x.data = memory->data();
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_CUDA(cudaMemcpyAsync(x.data, given.of(step), x.bytes(),
                                cudaMemcpyDefault, stream_));
    ASYRA_CHECK_OK(executor_->EnqueueViews({x}, stream_).status());
    if (step == 0) continue;
    EXPECT_EQ(ASYRA_VALUE(executor_->Await(step - 1)),
              std::vector<double>({1.0 * (step - 1) * (step - 1)}));
  }
  ASYRA_CHECK_OK(executor_->Await(kSteps - 1).status());
}

TEST_P(CudaInFlight, ValuesMayLieInMemoryOfTheCaller) {
  Values given, taken;
  int64_t bytes = kElements * static_cast<int64_t>(sizeof(float));
  auto in = ASYRA_VALUE(device_->Allocate(bytes));
  auto out = ASYRA_VALUE(device_->Allocate(bytes));
  auto executor = Prepared(
      kProgram,
      {.memory = {{"x", {in->data(), DType::kF32, {kElements}}},
                  {"squares", {out->data(), DType::kF32, {kElements}}}}});
  DeviceView x = ASYRA_VALUE(executor->InputView("x"));
  EXPECT_EQ(x.data, in->data());
  EXPECT_EQ(ASYRA_VALUE(executor->OutputView("squares")).data, out->data());
  EXPECT_CUDA(cudaMemcpyAsync(in->data(), given.of(7), bytes, cudaMemcpyDefault,
                              stream_));
  ASYRA_CHECK_OK(executor->EnqueueViews({x}, stream_).status());
  EXPECT_CUDA(cudaMemcpyAsync(taken.of(0), out->data(), bytes,
                              cudaMemcpyDefault, stream_));
  EXPECT_CUDA(cudaStreamSynchronize(stream_));
  EXPECT_EQ(taken.of(0)[kElements - 1], 49);
}

// A step of one executor comes after those of another that were given before.
TEST_P(CudaInFlight, ExecutorsShareTheirParams) {
  states_ = ASYRA_VALUE(StateSet::Create(*device_));
  WeightStore values;
  values.Set("sum", Tensor::FromDoubles(DType::kF32, {}, {0}));
  auto adder = Prepared(kAdder, {}, &values);
  auto reader = Prepared(kReader);
  double sum = 0;
  for (int step = 1; step <= 20; ++step) {
    ASYRA_CHECK_OK(adder->Enqueue({Filled(step)}).status());
    int64_t number = ASYRA_VALUE(reader->Enqueue({}));
    sum += step;
    EXPECT_EQ(ASYRA_VALUE(reader->Await(number)),
              std::vector<double>({2 * sum}));
  }
}

INSTANTIATE_TEST_SUITE_P(Launches, CudaInFlight, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "graph" : "op_by_op";
                         });

}  // namespace
}  // namespace asyra
