// Random scheduled programs (tests/simulator/replay/random_program.h) that can
// run.
#pragma once

#include "absl/strings/str_replace.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "tests/simulator/replay/random_program.h"

namespace asyra {

// Its partial inputs are made from whole ones, since a program's own inputs
// have a value, and collectives over the same axes are on one stream. Those of
// several values are in half of the programs.
inline Program RunnableProgram(int seed, int steps = 40) {
  RandomProgram random(static_cast<uint32_t>(seed), steps, 1 + seed % 3,
                       /*joins=*/seed / 3 % 2 == 1);
  std::string text = absl::StrReplaceAll(
      random.text(),
      {{"%p: f32[500] partial(tp), %q: f32[2000] partial(dp)",
        "%p.s: f32[2@tp, 500], %q.s: f32[2@dp, 2000]"},
       {"(f32[500]) {\n",
        "(f32[500]) {\n"
        "  %p = reduce_sum(%p.s) {dims=[0], keep=false} on compute0 "
        ": f32[500] partial(tp)\n"
        "  %q = reduce_sum(%q.s) {dims=[0], keep=false} on compute0 "
        ": f32[2000] partial(dp)\n"},
       {"on tp1", "on tp0"},
       {"on dp1", "on dp0"}});
  Program program = ASYRA_VALUE(ParseProgram(text));
  ASYRA_CHECK_OK(Verify(program));
  return program;
}

}  // namespace asyra
