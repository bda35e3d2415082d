#include "passes/compile_options.h"

#include "gmock/gmock.h"

namespace asyra {
namespace {

using ::testing::UnorderedElementsAre;

TEST(CompileOptions, MeasuredOnlyClosesMoreThanWasClosed) {
  CompileOptions options;
  options.schedule.closed = {"separate_phases"};
  EXPECT_THAT(ScheduleOptionsOf(options).closed,
              UnorderedElementsAre("separate_phases"));
  options.measured_only = true;
  EXPECT_THAT(ScheduleOptionsOf(options).closed,
              UnorderedElementsAre("separate_phases", "use_copy_engines",
                                   "leave_sm_margin"));
}

}  // namespace
}  // namespace asyra
