// What a run says of programs that it took in turn.
#include "tools/run/run_report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunResult Steps(std::vector<double> us) {
  RunResult run;
  run.step_us = std::move(us);
  run.inputs_us.assign(run.step_us.size(), 5700);
  run.outputs_us = 40;
  return run;
}

std::string TextAgainst(const AgainstReport& other) {
  Program program = ASYRA_VALUE(
      ParseProgram("asyra 1 global\nprogram @f(%x: f32[2]) -> (f32[2]) {\n"
                   "  %y = neg(%x) : f32[2]\n  return %y\n}\n"));
  RunReport report{.model = "f.asyra", .device = "cpu", .program = &program};
  report.run = Steps({900, 1000, 1100});
  report.against.push_back(other);
  return ToText(report);
}

TEST(RunReport, SaysWhetherTheScheduledProgramLost) {
  EXPECT_THAT(TextAgainst({"unscheduled", Steps({1250, 1250, 1250})}),
              HasSubstr("\nthis takes 20.0 % less time than unscheduled\n"));
  EXPECT_THAT(TextAgainst({"unscheduled", Steps({800, 800, 800})}),
              HasSubstr("\nthis takes 25.0 % MORE time than unscheduled\n"));
}

TEST(RunReport, TakesEqualTimesForEqual) {
  std::string text = TextAgainst({"old.asyra", Steps({996, 996, 996})});
  EXPECT_THAT(text, HasSubstr("\nthis takes as long as old.asyra\n"));
  EXPECT_THAT(text, Not(HasSubstr(" time than ")));
}

TEST(RunReport, CopiesAreNotPartOfAStep) {
  std::string text = TextAgainst({"old.asyra", Steps({1550, 1550, 1550})});
  EXPECT_THAT(text,
              HasSubstr("3 steps: median 1.00 ms, min 0.90 ms, max 1.10 ms\n"
                        "copies, not part of a step: inputs 5.70 ms, outputs "
                        "0.04 ms\n"));
  // The unit of a column is that of its largest time.
  EXPECT_THAT(text, HasSubstr("    1.00 ms    0.90 ms 1.000x\n"));
  EXPECT_THAT(text, HasSubstr("    1.55 ms    1.55 ms 1.550x\n"));
}

TEST(RunReport, CountsOneOp) {
  EXPECT_THAT(TextAgainst({"old.asyra", Steps({1000})}),
              HasSubstr("f.asyra: 1 op of stage global on 1 cpu rank\n"));
}

}  // namespace
}  // namespace asyra
