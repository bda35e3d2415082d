#include "tools/report/verdict.h"

#include "gtest/gtest.h"

namespace asyra {
namespace {

constexpr int64_t kMiB = 1 << 20, kGiB = 1 << 30;

Steps StepOf(int64_t arena, int64_t device, int64_t capacity) {
  Steps steps;
  steps.after.model = "m";
  steps.after.makespan_us = 7526.6;
  steps.after.peak_bytes = arena;
  steps.after.arena_bytes = arena;
  steps.after.device_bytes = device;
  steps.after.capacity_bytes = capacity;
  return steps;
}

TEST(Verdict, LibrariesAreToldWhereTheyAreMuch) {
  EXPECT_EQ(VerdictText(StepOf(kMiB, 1001 * kMiB, 140 * kGiB)),
            "7.53 ms a step; 1001.0 MiB of 140.0 GiB a device (1000.0 MiB of "
            "it libraries and kernels)\n");
  EXPECT_EQ(VerdictText(StepOf(60 * kGiB, 61 * kGiB, 140 * kGiB)),
            "7.53 ms a step; 61.00 of 140.0 GiB a device\n");
}

TEST(Verdict, SaysWhatDoesNotFit) {
  EXPECT_EQ(
      VerdictText(StepOf(90 * kGiB, 91 * kGiB, 80 * kGiB)),
      "7.53 ms a step; 91.00 of 80.00 GiB a device, which DOES NOT FIT\n");
}

// Images are no tokens.
TEST(Verdict, CountsWhatTheStepMakes) {
  Profile step = StepOf(1, 1, 0).after;
  step.machine = "h200x8";
  step.makespan_us = 1e6;
  step.step = {.batch = 4, .dtype = "f32", .image = {32, 32}};
  EXPECT_EQ(TargetText(step), "m on h200x8, 1 device, 4 images a second\n");
  step.step = {.batch = 2, .tokens = {1}};
  EXPECT_EQ(TargetText(step), "m on h200x8, 1 device, 2 tokens a second\n");
}

}  // namespace
}  // namespace asyra
