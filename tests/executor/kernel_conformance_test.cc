// What every kernel must satisfy, by its op being listed: each sample of each
// op runs through the executor, on one rank or over the sample's mesh, and
// must give what the interpreter gives, by a kernel of its own; memory is
// guarded, poisoned and checked as it is used.
#include "executor/cpu/run_on_cpu.h"
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "tests/support/kernel_case.h"

namespace asyra {
namespace {

class Kernels : public testing::TestWithParam<OpCase> {};

TEST_P(Kernels, ComputeWhatTheReferenceDoes) {
  ParsedCall call = GetParam().Parse();
  if (call.def->is_wait) GTEST_SKIP() << "of a start only: streams_test.cc";
  Program program = ProgramOf(call, GetParam().mesh());
  std::vector<Tensor> inputs = InputsOf(program, GetParam());
  auto want = Interpret(program, inputs);
  ASSERT_TRUE(want.ok()) << want.status();
  auto got = RunOnCpu(program, inputs, {.executor = {.debug_memory = true}});
  ASSERT_TRUE(got.ok()) << got.status() << "\n" << ToString(program);
  EXPECT_THAT(got->fallback_ops, testing::IsEmpty());
  ASSERT_EQ(got->outputs.size(), want->size());
  for (size_t i = 0; i < want->size(); ++i) {
    EXPECT_TRUE(Near(got->outputs[i], (*want)[i], kKernelTolerance));
  }
}

INSTANTIATE_TEST_SUITE_P(Sharded, Kernels, testing::ValuesIn(ShardedCases()),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(OneRank, Kernels, testing::ValuesIn(Cases(false)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(OverMesh, Kernels, testing::ValuesIn(Cases(true)),
                         CaseName);

}  // namespace
}  // namespace asyra
