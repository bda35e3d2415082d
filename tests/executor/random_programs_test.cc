// Random scheduled programs: computation on several streams, collectives that
// are waited for at some later point. The executor must give what the
// interpreter gives, whatever the order in which streams happen to run.
#include "absl/strings/str_replace.h"
#include "executor/cpu/run_on_cpu.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/verifier.h"
#include "tests/simulator/random_program.h"
#include "tests/support/fixture.h"

namespace asyra {
namespace {

// The program with its partial inputs made from whole ones, since a program's
// own inputs have a value, and collectives over the same axes on one stream.
std::string Runnable(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"%p: f32[500] partial(tp), %q: f32[2000] partial(dp)",
              "%p.s: f32[2@tp, 500], %q.s: f32[2@dp, 2000]"},
             {"(f32[500]) {\n",
              "(f32[500]) {\n"
              "  %p = reduce_sum(%p.s) {dims=[0], keep=false} on compute0 "
              ": f32[500] partial(tp)\n"
              "  %q = reduce_sum(%q.s) {dims=[0], keep=false} on compute0 "
              ": f32[2000] partial(dp)\n"},
             {"on tp1", "on tp0"},
             {"on dp1", "on dp0"}});
}

class RandomPrograms : public testing::TestWithParam<int> {};

TEST_P(RandomPrograms, GiveWhatTheInterpreterGives) {
  uint32_t seed = static_cast<uint32_t>(GetParam());
  RandomProgram random(seed, 40, 1 + GetParam() % 3);
  std::string text = Runnable(random.text());
  SCOPED_TRACE(text);
  Program program = ASYRA_VALUE(ParseProgram(text));
  ASYRA_CHECK_OK(Verify(program));
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
