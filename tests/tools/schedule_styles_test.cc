#include "tools/schedule_styles.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "simulator/machine.h"

namespace asyra {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

constexpr double kGib = int64_t{1} << 30;

// Ordered as they stand, which is enough to compare forms.
CompileOptions Options() {
  CompileOptions options;
  options.model = "llama3-8b";
  options.dims = {"layers=2", "batch=2", "seq=8192", "vocabulary=8192",
                  "logits=1"};
  options.tp = 8;
  options.tp_style = "sequence";
  options.tiles = 1;
  options.scheduler = "serial";
  return options;
}

struct Scheduled {
  absl::Status status;
  CompileResult result;
};

Scheduled ScheduleIt(const CompileOptions& options,
                     const PassManagerOptions& manager = {}) {
  Scheduled made;
  Program& program = made.result.program;
  program = ASYRA_VALUE(LoadRaised(options)).raised;
  program.mesh = ASYRA_VALUE(MeshOf(options));
  CostModel costs(ASYRA_VALUE(LoadMachine(options.machine, {})), program.mesh,
                  {});
  PassContext context{.costs = &costs};
  made.status = ScheduleBestStyle(options, manager, context, &made.result);
  return made;
}

double LeastGib(CompileOptions options) {
  double least = 1e9;
  CompileResult result = ASYRA_VALUE(Compile(options));
  for (const ScheduleChoice& choice : result.schedule->candidates) {
    double gib = static_cast<double>(choice.peak_bytes) / kGib;
    if (gib > 0) least = std::min(least, gib);
  }
  return least;
}

TEST(ScheduleStyles, TakeTheFormsThatFit) {
  CompileOptions options = Options();
  options.sums = "collective";
  double inside = LeastGib(options);
  options.sums = "apart";
  double apart = LeastGib(options);
  ASSERT_LT(inside, apart);
  options.memory_gib = (inside + apart) / 2;
  EXPECT_THAT(std::string(ScheduleIt(options).status.message()),
              HasSubstr("no schedule found fits"));
  options.sums = "auto";
  Scheduled made = ScheduleIt(options);
  ASSERT_TRUE(made.status.ok()) << made.status;
  EXPECT_THAT(made.result.schedule->candidates,
              Contains(AllOf(Field(&ScheduleChoice::name, "sums apart"),
                             Field(&ScheduleChoice::rejected,
                                   HasSubstr("no schedule found fits")))));
}

TEST(ScheduleStyles, OfWhichOneThatWasNotAskedForMayNotFit) {
  CompileOptions options = Options();
  options.sums = "collective";
  double sequence = LeastGib(options);
  options.tp_style = "replicated";
  double replicated = LeastGib(options);
  ASSERT_LT(sequence, replicated);
  options.memory_gib = (sequence + replicated) / 2;
  EXPECT_THAT(std::string(ScheduleIt(options).status.message()),
              HasSubstr("no schedule found fits"));
  options.tp_style = "auto";
  Scheduled made = ScheduleIt(options);
  ASSERT_TRUE(made.status.ok()) << made.status;
  EXPECT_THAT(
      made.result.schedule->candidates,
      Contains(AllOf(Field(&ScheduleChoice::name, "tp-style replicated"),
                     Field(&ScheduleChoice::rejected,
                           HasSubstr("no schedule found fits")))));
}

// A fault in a form that was not asked for is one all the same.
TEST(ScheduleStyles, FaultsAreNoCandidates) {
  PassManagerOptions manager;
  manager.print_after = "decompose_reduce_scatter";
  // Sums apart are printed; what comes next, with this, cannot run.
  manager.print = [&](std::string_view) { manager.print_after = "("; };
  Scheduled made = ScheduleIt(Options(), manager);
  EXPECT_EQ(made.status.message(),
            "sums apart: --print-after: '(' is not a regular expression");
  CompileOptions inside = Options();
  inside.sums = "collective";
  manager.print_after = "decompose_reduce_scatter";
  made = ScheduleIt(inside, manager);
  EXPECT_TRUE(made.status.ok()) << made.status;
}

}  // namespace
}  // namespace asyra
