// A better machine and a longer search never come out slower.
#include <iostream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/support/random.h"
#include "tools/compile.h"

namespace asyra {
namespace {

// Time that a search cannot tell from none: costs are sums of doubles.
constexpr double kSlower = 1.001;
constexpr uint64_t kSeed = 1;

CompileFlags Options(int64_t tp, int64_t sp, const std::string& machine) {
  CompileFlags options;
  options.model = "llama3-tiny";
  options.dims = {"batch=4", "seq=256"};
  options.tp = tp;
  options.sp = sp;
  options.machine = machine;
  options.search_steps = 200;
  return options;
}

double MakespanUs(const CompileFlags& options) {
  return ASYRA_VALUE(Compile(options)).simulated->makespan_us;
}

TEST(WhatIf, BetterMachinesAreNotSlower) {
  const std::vector<std::string> better = {
      "host.link_gbps*=2", "host.copy_gbps*=2",   "host.cta_gbps*=2",
      "gpu.hbm_gbps*=2",   "gpu.kernel_us*=0.5",  "launch_us*=0.5",
      "gpu.hbm_gib*=2",    "gpu.vector_tflops*=2"};
  const std::vector<std::string> machines = {"h100x8", "a800x8", "b200x8"};
  RandomStream random(kSeed, 0);
  uint64_t drawn = 0;
  auto pick = [&](size_t count) { return random.Word(drawn++) % count; };
  int pairs = 0;
  for (; pairs < 8; ++pairs) {
    int64_t tp = pick(2) == 0 ? 2 : 4;
    CompileFlags options = Options(tp, 1 + static_cast<int64_t>(pick(2)),
                                   machines[pick(machines.size())]);
    double before_us = MakespanUs(options);
    options.set = {better[pick(better.size())]};
    EXPECT_LE(MakespanUs(options), kSlower * before_us)
        << "tp " << options.tp << " sp " << options.sp << " on "
        << options.machine << " with " << options.set[0];
  }
  RecordProperty("pairs", pairs);
  std::cout << pairs << " pairs of seed " << kSeed << "\n";
}

TEST(WhatIf, MoreStepsAreNotSlower) {
  for (auto [tp, sp] : {std::pair<int64_t, int64_t>{4, 1}, {2, 2}}) {
    CompileFlags options = Options(tp, sp, "h100x8");
    double last_us = 0;
    for (int steps : {1, 100, 400, 1000, 2000, 5000}) {
      options.search_steps = steps;
      double us = MakespanUs(options);
      if (last_us > 0) {
        EXPECT_LE(us, last_us) << steps << " steps";
      }
      last_us = us;
    }
  }
}

TEST(WhatIf, ASlowerScheduleSaysWhatWasAskedFor) {
  CompileFlags options = Options(2, 1, "a800x8");
  options.model = "qwen3-moe-tiny";
  options.dims = {"batch=2", "seq=256"};
  options.dp = 2;
  EXPECT_EQ(SlowerText(options, ASYRA_VALUE(Compile(options))), "");
  options.tiles = 4;
  CompiledModel tiled = ASYRA_VALUE(Compile(options));
  ASSERT_GT(tiled.schedule->optimized.makespan_us,
            tiled.schedule->baseline.makespan_us);
  std::string slower = SlowerText(options, tiled);
  EXPECT_THAT(slower,
              testing::MatchesRegex("slower than unscheduled by [0-9.]+ %: "
                                    "--tiles 4 was asked for"));
  EXPECT_THAT(tiled.remarks, testing::Contains(slower));
}

TEST(WhatIf, NoiseIsWhatTheLastRoundStillGained) {
  EXPECT_EQ(SearchNoise({}), kLeastNoise);
  EXPECT_EQ(SearchNoise({100}), kNoiseOfOneRound);
  EXPECT_EQ(SearchNoise({100, 100}), kLeastNoise);
  EXPECT_NEAR(SearchNoise({200, 102, 100}), 0.02, 1e-9);
  EXPECT_EQ(BestOfRounds({5, 4, 3}, {4.5}), std::vector<double>({4.5, 4, 3}));
  EXPECT_EQ(BestOfRounds({5}, {6, 4}), std::vector<double>({5, 4}));
  EXPECT_EQ(BestOfRounds({}, {6, 4}), std::vector<double>({6, 4}));
  CompileFlags options = Options(2, 1, "h100x8");
  options.search_steps = 1000;
  CompiledModel result = ASYRA_VALUE(Compile(options));
  const std::vector<double>& round_us = result.schedule->round_us;
  ASSERT_EQ(round_us.size(), 2u);
  EXPECT_GE(round_us[0], round_us[1]);
  EXPECT_EQ(round_us[1], result.simulated->makespan_us);
  EXPECT_EQ(result.noise, SearchNoise(round_us));
  options.search_steps = 200;
  EXPECT_EQ(MakespanUs(options), round_us[0]);
}

TEST(WhatIf, RoundsOfALargerSearchBeginWithThoseOfASmaller) {
  EXPECT_EQ(SearchRounds(1), std::vector<int>({200}));
  EXPECT_EQ(SearchRounds(999), std::vector<int>({200}));
  EXPECT_EQ(SearchRounds(1000), std::vector<int>({200, 800}));
  EXPECT_EQ(SearchRounds(5000), std::vector<int>({200, 800, 4000}));
  int sum = 0;
  for (int steps : SearchRounds(10000000)) sum += steps;
  EXPECT_EQ(sum, 3125000);
}

}  // namespace
}  // namespace asyra
