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

// Within a budget for `small` alone `large` is refused, and where `both` are
// compared rejected, as the candidate `name`.
void ExpectOnlySmallFits(const CompileOptions& small, CompileOptions large,
                         CompileOptions both, const std::string& name) {
  double small_gib = LeastGib(small), large_gib = LeastGib(large);
  ASSERT_LT(small_gib, large_gib);
  large.memory_gib = both.memory_gib = (small_gib + large_gib) / 2;
  EXPECT_THAT(std::string(ScheduleIt(large).status.message()),
              HasSubstr("no schedule found fits"));
  Scheduled made = ScheduleIt(both);
  ASSERT_TRUE(made.status.ok()) << made.status;
  EXPECT_THAT(made.result.schedule->candidates,
              Contains(AllOf(Field(&ScheduleChoice::name, name),
                             Field(&ScheduleChoice::rejected,
                                   HasSubstr("no schedule found fits")))));
}

TEST(ScheduleStyles, SumsApartMayNotFit) {
  CompileOptions inside = Options(), apart = Options(), both = Options();
  inside.sums = "collective";
  apart.sums = "apart";
  both.sums = "auto";
  ExpectOnlySmallFits(inside, apart, both, "sums apart");
}

TEST(ScheduleStyles, StylesThatWereNotAskedForMayNotFit) {
  CompileOptions sequence = Options();
  sequence.sums = "collective";
  CompileOptions replicated = sequence, both = sequence;
  replicated.tp_style = "replicated";
  both.tp_style = "auto";
  ExpectOnlySmallFits(sequence, replicated, both, "tp-style replicated");
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
