// Passes that put ops on other streams, on random scheduled programs: the
// results verify and, run on streams, give what the program before gave.
#include "absl/algorithm/container.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "passes/pass_manager.h"
#include "passes/schedule/memory/plan_memory.h"
#include "passes/schedule/transport/stream_layout.h"
#include "simulator/cost/load_machine.h"
#include "simulator/replay/simulate.h"
#include "tests/executor/runnable.h"
#include "tests/schedules/on_streams.h"
#include "tests/support/fixture.h"
#include "tests/support/sanitized.h"

namespace asyra {
namespace {

constexpr int kPrograms = kSanitized ? 10 : 20;

// With offsets that values share, so that a missing order is a wrong result.
std::string DifferenceAllocated(Program after, const Program& before,
                                uint64_t seed) {
  PassContext context;
  ASYRA_CHECK_OK(PlanMemoryPass(after, {}, context).status());
  absl::Status verified = Verify(after);
  if (!verified.ok()) return verified.ToString();
  std::vector<Tensor> inputs = SmallIntegerInputs(before);
  return DifferenceOnStreams(after, inputs,
                             ASYRA_VALUE(Interpret(before, inputs)), seed);
}

// 128 times as long, so that numbers of CTAs matter.
Program Larger(const Program& program) {
  return ASYRA_VALUE(ParseProgram(absl::StrReplaceAll(
      ToString(program), {{"500", "64000"}, {"2000", "256000"}})));
}

CostModel Costs(std::string_view machine, const Program& program) {
  return CostModel(ASYRA_VALUE(LoadMachine(machine)), program.mesh);
}

TEST(Streams, AssignedOnesAreNeverWorseAndComputeTheSame) {
  int changed = 0;
  for (int seed = 0; seed < kPrograms; ++seed) {
    SCOPED_TRACE(seed);
    Program program = Larger(RunnableProgram(seed));
    CostModel costs = Costs("a800x8", program);
    PassContext context;
    context.costs = &costs;
    Program assigned = program;
    ASYRA_CHECK_OK(RunPasses(assigned, "assign_streams", context));
    SimResult before = Simulate(program, costs);
    SimResult after = Simulate(assigned, costs);
    EXPECT_LE(after.makespan_us, before.makespan_us);
    EXPECT_LE(after.peak_bytes, before.peak_bytes);
    if (ToString(assigned) == ToString(program)) continue;
    ++changed;
    EXPECT_EQ(DifferenceAllocated(assigned, program, seed), "");
  }
  EXPECT_GE(changed, kPrograms / 10);
}

TEST(Streams, EveryLayoutComputesTheSame) {
  int changed = 0, second_stream = 0;
  for (int seed = 0; seed < kPrograms; ++seed) {
    Program program = RunnableProgram(seed);
    for (const StreamLayout& layout : OtherLayouts()) {
      SCOPED_TRACE(fmt::format("seed {}{}", seed, ToString(layout)));
      Program laid = LayOut(program, layout,
                            EstimateCosts(program, Costs("a800x8", program)));
      changed += ToString(laid) != ToString(program);
      second_stream += absl::c_linear_search(laid.streams, "compute2");
      EXPECT_EQ(DifferenceAllocated(laid, program, seed), "");
    }
  }
  EXPECT_GE(changed, 2 * kPrograms);
  EXPECT_GE(second_stream, kPrograms / 4);
}

}  // namespace
}  // namespace asyra
