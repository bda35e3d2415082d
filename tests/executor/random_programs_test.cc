// Random scheduled programs: computation on several streams, collectives that
// are waited for at some later point. The executor must give what the
// interpreter gives, whatever the order in which streams happen to run.
#include "executor/cpu/run_on_cpu.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "tests/executor/runnable.h"
#include "tests/support/fixture.h"

namespace asyra {
namespace {

class RandomPrograms : public testing::TestWithParam<int> {};

TEST_P(RandomPrograms, GiveWhatTheInterpreterGives) {
  Program program = RunnableProgram(GetParam());
  SCOPED_TRACE(ToString(program));
  std::vector<Tensor> inputs = SmallIntegerInputs(program);
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(program, inputs));
  for (bool debug : {false, true}) {
    auto got = RunOnCpu(program, inputs,
                        {.executor = {.debug_memory = debug},
                         .repeat = 3,
                         .check_deterministic = true});
    ASSERT_TRUE(got.ok()) << got.status();
    absl::Status same = SameOutputs(want, got->outputs, 0);
    EXPECT_TRUE(same.ok()) << same;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, testing::Range(0, 24));

}  // namespace
}  // namespace asyra
