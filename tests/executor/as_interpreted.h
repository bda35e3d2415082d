// Programs whose steps give what the interpreter gives.
#pragma once

#include "executor/cpu/run_on_cpu.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "tests/support/fixture.h"

namespace asyra {

// On small integers, with debug memory and without, three steps each: the same
// bytes, unless there is a tolerance. `run`, where it is asked for, is the
// last.
inline void ExpectSameAsInterpreted(const Program& program,
                                    double tolerance = 0,
                                    RunResult* run = nullptr) {
  SCOPED_TRACE(ToString(program));
  absl::Status verified = Verify(program);
  ASSERT_TRUE(verified.ok()) << verified;
  std::vector<Tensor> inputs = SmallIntegerInputs(program);
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(program, inputs));
  for (bool debug : {false, true}) {
    auto got = RunOnCpu(program, inputs,
                        {.executor = {.debug_memory = debug},
                         .repeat = 3,
                         .check_deterministic = true});
    ASSERT_TRUE(got.ok()) << got.status();
    absl::Status same = SameOutputs(want, got->outputs, tolerance);
    EXPECT_TRUE(same.ok()) << same;
    if (run != nullptr) *run = *std::move(got);
  }
}

}  // namespace asyra
