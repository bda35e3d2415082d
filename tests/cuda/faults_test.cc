// Ranks on GPUs that fail, stall or do not fit: errors with names, no hangs.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "absl/strings/str_replace.h"
#include "executor/cuda/comm/nccl_world.h"
#include "executor/cuda/device/cuda_device.h"
#include "executor/cuda/device/cuda_platform.h"
#include "gmock/gmock.h"
#include "ir/support/status.h"
#include "tests/cuda/copy_engines.h"
#include "tests/executor/ranks.h"

namespace asyra {
namespace {

using testing::HasSubstr;

constexpr char kSum[] = R"(asyra 1 local
mesh (tp=2)
program @sum(%x: f32[4@tp, 8]) -> (f32[1, 8]) {
  %s = reduce_sum(%x) {dims=[0], keep=true} : f32[1, 8] partial(tp)
  %y = all_reduce(%s) {axes=tp} : f32[1, 8]
  return %y
})";

int Gpus() {
  absl::StatusOr<int> count = CountCudaDevices();
  return count.ok() ? *count : 0;
}

// The same with copy engines instead of NCCL.
std::string SumByCopyEngine() {
  return absl::StrReplaceAll(kSum,
                             {{"axes=tp}", "axes=tp, transport=copy_engine}"}});
}

// The same as one kernel, which waits for the kernel of the other GPU.
constexpr char kSumInOneKernel[] = R"(asyra 1 local
mesh (tp=2)
program @sum(%x: f32[4@tp, 8]) -> (f32[1, 8]) {
  %s = reduce_sum(%x) {dims=[0], keep=true} : f32[1, 8] partial(tp)
  %y = overlap(%s) {
    %1 = all_reduce(%0) {axes=tp} : f32[1, 8]
    %2 = neg(%1) : f32[1, 8]
    return %2
  } {form=one_kernel} : f32[1, 8]
  return %y
})";

// Steps of a program on two GPUs; `before` runs before each rank's second one.
// `carried` counts what copy engines carry, by all ranks.
std::vector<absl::Status> TwoSteps(
    double timeout_s, const std::function<absl::Status(int64_t rank)>& before,
    const std::string& program = kSum, std::atomic<int>* carried = nullptr) {
  std::atomic<int> unasked = 0;
  if (carried == nullptr) carried = &unasked;
  return OnRanks(
      2, {.timeout_s = timeout_s}, [&](Communicator& control) -> absl::Status {
        int ordinal = static_cast<int>(control.rank());
        ASYRA_ASSIGN_OR_RETURN(auto device,
                               CreateCudaDevice({.ordinal = ordinal}));
        ASYRA_ASSIGN_OR_RETURN(auto nccl,
                               CreateNcclWorld(control, {ordinal, timeout_s}));
        auto world = std::make_unique<CountingWorld>(std::move(nccl), carried);
        ASYRA_ASSIGN_OR_RETURN(auto executor, Executor::Load(Parse(program)));
        ASYRA_RETURN_IF_ERROR(executor->Prepare(*device, world.get(), nullptr));
        Tensor input(DType::kF32, {2, 8});
        ASYRA_RETURN_IF_ERROR(executor->Step({input}));
        absl::Status status = before(control.rank());
        if (!status.ok()) {
          world->Abort(status);
          return status;
        }
        return executor->Step({input});
      });
}

TEST(CudaFaults, ARankThatFailsIsNamed) {
  if (Gpus() < 2) GTEST_SKIP() << "takes two GPUs";
  auto results = TwoSteps(30, [](int64_t rank) {
    return rank == 1 ? absl::InternalError("out of ideas") : absl::OkStatus();
  });
  EXPECT_THAT(results[0].ToString(), HasSubstr("rank 1 failed: out of ideas"));
  EXPECT_THAT(results[1].ToString(), HasSubstr("out of ideas"));
}

TEST(CudaFaults, ARankThatStallsIsNamed) {
  if (Gpus() < 2) GTEST_SKIP() << "takes two GPUs";
  auto results = TwoSteps(2, [](int64_t rank) {
    if (rank == 1) std::this_thread::sleep_for(std::chrono::seconds(4));
    return absl::OkStatus();
  });
  EXPECT_THAT(results[0].ToString(),
              HasSubstr("has not ended within 2 s, not begun on rank 1"));
  EXPECT_THAT(results[1].ToString(), HasSubstr("rank 0 failed"));
}

// Of a program whose sum is carried between the GPUs' memories.
void ExpectNobodyWaitsForever(const std::string& program) {
  std::atomic<int> carried = 0;
  auto failed = TwoSteps(
      30,
      [](int64_t rank) {
        return rank == 1 ? absl::InternalError("out of ideas")
                         : absl::OkStatus();
      },
      program, &carried);
  EXPECT_THAT(failed[0].ToString(), HasSubstr("rank 1 failed: out of ideas"));
  auto stalled = TwoSteps(
      2,
      [](int64_t rank) {
        if (rank == 1) std::this_thread::sleep_for(std::chrono::seconds(4));
        return absl::OkStatus();
      },
      program, &carried);
  EXPECT_THAT(stalled[0].ToString(),
              HasSubstr("has not ended within 2 s, not begun on rank 1"));
  EXPECT_THAT(stalled[1].ToString(), HasSubstr("rank 0 failed"));
  EXPECT_EQ(carried, 2 * 2) << "of each rank, once in each run";
}

TEST(CudaFaults, CopyEnginesDoNotWaitForARankThatFailsOrStalls) {
  if (Gpus() < 2) GTEST_SKIP() << "takes two GPUs";
  if (!GpusReachEachOther()) GTEST_SKIP() << "the GPUs share no memory";
  ExpectNobodyWaitsForever(SumByCopyEngine());
}

TEST(CudaFaults, KernelsDoNotWaitForThoseOfARankThatFailsOrStalls) {
  if (Gpus() < 2) GTEST_SKIP() << "takes two GPUs";
  if (!GpusReachEachOther()) GTEST_SKIP() << "the GPUs share no memory";
  ExpectNobodyWaitsForever(kSumInOneKernel);
}

TEST(CudaFaults, EveryRankNeedsAGpu) {
  auto platform = CreateCudaPlatform();
  if (!platform.ok()) {
    EXPECT_THAT(platform.status().ToString(), HasSubstr("CUDA"));
    GTEST_SKIP() << platform.status().message();
  }
  EXPECT_THAT((*platform)->CheckRanks(1000).ToString(),
              HasSubstr("1000 ranks of this host need a GPU each"));
}

TEST(CudaFaults, MemoryThatIsNotThereIsNamed) {
  if (Gpus() < 1) GTEST_SKIP() << "takes a GPU";
  auto device = ASYRA_VALUE(CreateCudaDevice());
  absl::Status status = device->Allocate(int64_t{1} << 50).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("are left on GPU 0"));
  EXPECT_TRUE(device->Allocate(1 << 20).ok());
}

}  // namespace
}  // namespace asyra
