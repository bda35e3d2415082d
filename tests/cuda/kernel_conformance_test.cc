// Every kernel of the cuda device on the samples of its op, against the
// interpreter: poisoned and guarded memory, launched one by one and as a graph.
// Samples over more devices than there are GPUs are skipped.
#include "executor/cuda/device/cuda_device.h"
#include "executor/cuda/device/cuda_platform.h"
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "tests/support/kernel_case.h"

namespace asyra {
namespace {

// Contexts of GPUs and NCCL's communicators take a second to make.
Platform& PlatformWith(bool graphs) {
  static Platform* const platforms[] = {
      ASYRA_VALUE(CreateCudaPlatform({.graphs = false})).release(),
      ASYRA_VALUE(CreateCudaPlatform({.graphs = true})).release()};
  return *platforms[graphs];
}

class CudaKernels : public testing::TestWithParam<OpCase> {};

TEST_P(CudaKernels, ComputeWhatTheReferenceDoes) {
  absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  Mesh mesh = GetParam().mesh();
  if (mesh.num_devices() > *gpus) {
    GTEST_SKIP() << mesh.num_devices() << " devices, " << *gpus << " GPUs";
  }
  ParsedCall call = GetParam().Parse();
  if (call.def->is_wait) GTEST_SKIP() << "of a start only";
  Program program = ProgramOf(call, mesh);
  std::vector<Tensor> inputs = InputsOf(program, GetParam());
  auto want = Interpret(program, inputs);
  ASSERT_TRUE(want.ok()) << want.status();
  for (bool graphs : {false, true}) {
    auto got = RunOnThreads(program, inputs, PlatformWith(graphs),
                            {.executor = {.debug_memory = true}, .repeat = 2});
    ASSERT_TRUE(got.ok()) << got.status() << "\n" << ToString(program);
    EXPECT_THAT(got->fallback_ops, testing::IsEmpty());
    ASSERT_EQ(got->outputs.size(), want->size());
    for (size_t i = 0; i < want->size(); ++i) {
      EXPECT_TRUE(Near(got->outputs[i], (*want)[i], kKernelTolerance));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sharded, CudaKernels,
                         testing::ValuesIn(ShardedCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(OneRank, CudaKernels, testing::ValuesIn(Cases(false)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(OverMesh, CudaKernels, testing::ValuesIn(Cases(true)),
                         CaseName);

}  // namespace
}  // namespace asyra
