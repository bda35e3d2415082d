#include "simulator/report/report.h"

#include "gmock/gmock.h"
#include "simulator/report/text.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

using testing::HasSubstr;

constexpr std::string_view kProgram = R"(asyra 1 scheduled
mesh (tp=2)
program @f(%x: f32[500] partial(tp), %y: f32[500]) -> (f32[500], f32[500]) {
  %f = start all_reduce(%x) {axes=tp} on comm : future f32[500]
  %a = neg(%y) on compute : f32[500]
  %r = wait(%f) on compute : f32[500]
  %layer0.b = neg(%r) on compute : f32[500]
  return %a, %layer0.b
})";

Profile TestProfile(double capacity_gib = -1) {
  Program program = Parse(kProgram);
  CostModel costs(TestMachine(), program.mesh);
  SimResult result = Simulate(program, costs, {.contention = false});
  return MakeProfile(program, result, costs,
                     {.model = "mlp", .capacity_gib = capacity_gib});
}

TEST(Report, SaysTimeCommunicationMemoryAndWhatTheyRestOn) {
  EXPECT_EQ(
      Report(TestProfile()),
      "mlp on test, 2 devices (tp=2)\n"
      "makespan               16.0 us   lower bound 16.0 us, gap 0.0 %\n"
      "computation             8.0 us   bubble 50.0 %\n"
      "communication          12.0 us   exposed 8.0 us, 1 collective\n"
      "  tp                   12.0 us   exposed 8.0 us\n"
      "peak memory           9.77 KiB   activation 5.86 KiB, input 3.91 KiB\n"
      "  in an arena        10.00 KiB   reached at 12.0 us\n"
      "  on the device      10.00 KiB   0.0 % of 1.00 GiB\n"
      "                      1.95 KiB   x f32[500] partial(tp)\n"
      "                      1.95 KiB   y f32[500]\n"
      "                      1.95 KiB   f future f32[500]\n"
      "rests on       formula 100.0 %\n"
      "exposed communication\n"
      "                                                       ops       time   "
      "  %  limited by\n"
      "  f over tp                                              1     8.0 us  "
      "50.0  too small to split\n"
      "critical path, * for any number\n"
      "                                                       ops       time   "
      "  %  slowed by\n"
      "  f (all_reduce)                                         1    12.0 us  "
      "75.0     0.0 us\n"
      "  layer*.b (neg)                                         1     4.0 us  "
      "25.0     0.0 us\n");
}

TEST(Report, PowerIsToldWhereItIsKnown) {
  Profile profile = TestProfile();
  profile.makespan_us = 1e6;
  profile.watts = 640.4;
  profile.clock_mhz = 1500.4;
  profile.most_mhz = 1980;
  EXPECT_THAT(
      Report(profile),
      HasSubstr("power                    640 W   clock 1500 MHz of 1980, "
                "at the limit of power\n"));
  profile.clock_mhz = 1980;
  profile.step = {.batch = 4, .tokens = {16}, .dtype = "bf16"};
  // 1280.8 J of two devices for 64 tokens.
  EXPECT_THAT(Report(profile), HasSubstr("640 W   clock 1980 MHz, 20.0 J a "
                                         "token\n"));
}

TEST(Report, TheStepIsToldWhereItIsKnown) {
  Profile profile = TestProfile();
  profile.step = {4, {64}, "bf16"};
  profile.makespan_us = 1000;
  EXPECT_THAT(Report(profile),
              HasSubstr("\nstep: batch 4, 64 tokens, bf16; 256 k tokens a "
                        "second\nmakespan "));
}

TEST(Report, LongStepsAreInSeconds) {
  Profile profile;
  profile.makespan_us = 34.2e6;
  profile.lower_bound_us = 9.5e6;
  EXPECT_THAT(Report(profile),
              testing::ContainsRegex(
                  "makespan +34\\.20 s   lower bound 9\\.50 s, gap"));
}

// A small model's memory is that of libraries.
TEST(Report, LibrariesAreToldApart) {
  Profile profile = TestProfile();
  profile.device_bytes = profile.arena_bytes + (int64_t{1000} << 20);
  EXPECT_THAT(Report(profile),
              HasSubstr("97.7 % of 1.00 GiB; 1000.0 MiB libraries and "
                        "kernels\n"));
}

TEST(Report, TypesInNamesAreNoNumbersOfLayers) {
  EXPECT_EQ(StarName("layer12.k_proj.weight.bf16.t3.all_gather"),
            "layer*.k_proj.weight.bf16.t*.all_gather");
}

TEST(Report, ExposedCollectivesOfAllLayersAreOneRow) {
  Profile profile;
  profile.makespan_us = 100;
  for (int layer = 0; layer < 3; ++layer) {
    ProfileOp op{.name = fmt::format("layer{}.r", layer), .op = "all_reduce"};
    op.axes = "tp";
    op.exposed_us = 10;
    op.exposed_by = layer < 2 ? "memory budget" : "communicator busy";
    profile.ops.push_back(op);
  }
  std::vector<ExposedGroup> groups = ExposedGroups(profile);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].name, "layer*.r");
  EXPECT_EQ(groups[0].count, 2);
  EXPECT_EQ(groups[0].us, 20);
  EXPECT_EQ(groups[0].why, "memory budget");
  EXPECT_EQ(groups[1].why, "communicator busy");
  EXPECT_EQ(ExposureReport(Profile{}), "");
}

// Communication that no collective shows.
TEST(Report, KernelsThatCommunicateAreARow) {
  Profile profile;
  profile.makespan_us = 100;
  for (int i = 0; i < 3; ++i) {
    profile.ops.push_back({.name = "norm", .start_us = 10, .end_us = 15});
    profile.ops.back().kernel_axes = "tp";
  }
  EXPECT_THAT(ExposureReport(profile),
              testing::ContainsRegex("\n  in kernels, over tp +3 +15\\.0 us "
                                     "+15\\.0  counted as computation\n"));
}

// What does not fit into the table is its last row.
TEST(Report, ExposedCollectivesAddUp) {
  Profile profile;
  profile.makespan_us = 100;
  for (int i = 0; i < 13; ++i) {
    ProfileOp op{.name = std::string(1, static_cast<char>('a' + i))};
    op.axes = "tp";
    op.exposed_us = 13 - i;
    op.exposed_by = "memory budget";
    profile.ops.push_back(op);
  }
  std::string text = ExposureReport(profile);
  EXPECT_THAT(text, HasSubstr("  j over tp "));
  EXPECT_THAT(text, testing::Not(HasSubstr("  k over tp ")));
  EXPECT_THAT(text, testing::ContainsRegex("\n  others +3 +6\\.0 us +6\\.0 "));
}

TEST(Report, TheCriticalPathIsSummedUp) {
  std::string text = CriticalPathReport(TestProfile());
  EXPECT_THAT(text, HasSubstr("all_reduce over tp"));
  EXPECT_THAT(text, HasSubstr("by what held it up"));
  EXPECT_THAT(text, HasSubstr("load of each resource"));
  EXPECT_EQ(CriticalPathReport(Profile{}), "");
}

TEST(Report, WhatDoesNotFitIsNoShareOfTheDevice) {
  EXPECT_THAT(Report(TestProfile(9000.0 / (1 << 30))),
              HasSubstr("on the device      10.00 KiB   1.21 KiB more than "
                        "8.79 KiB\n"));
  EXPECT_THAT(Report(TestProfile(0)),
              testing::ContainsRegex("on the device +10.00 KiB +\n"));
}

TEST(Report, WhatDoesNotFitSaysByHowMuchAndWhatFillsIt) {
  EXPECT_TRUE(CheckCapacity(TestProfile()).ok());
  EXPECT_TRUE(CheckCapacity(TestProfile(0)).ok()) << "no limit";
  absl::Status status = CheckCapacity(TestProfile(9000.0 / (1 << 30)));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "mlp does not fit: 10.00 KiB on a device of 8.79 KiB, 1.21 KiB too "
            "much; at the peak: activation 5.86 KiB, input 3.91 KiB, gaps 240 "
            "bytes");
}

}  // namespace
}  // namespace asyra
