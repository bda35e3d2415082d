#include "tools/sweep.h"

#include "gmock/gmock.h"

namespace asyra {
namespace {

using testing::HasSubstr;

std::vector<SweepPoint> SweepOf(const std::vector<std::string>& grid,
                                SweepOptions options = {}) {
  CompileOptions compile;
  compile.model = "llama3-tiny";
  auto axes = ParseGrid(grid);
  EXPECT_TRUE(axes.ok()) << axes.status();
  auto points = Sweep(compile, *axes, options);
  EXPECT_TRUE(points.ok()) << points.status();
  return *points;
}

TEST(Sweep, GridsAreRead) {
  auto grid = ParseGrid({"tp=1,2", "mesh=dp=2,tp=4;tp=8", "set.gpu.sms=66"});
  ASSERT_TRUE(grid.ok()) << grid.status();
  EXPECT_EQ((*grid)[0].values, (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ((*grid)[1].values, (std::vector<std::string>{"dp=2,tp=4", "tp=8"}));
  EXPECT_EQ((*grid)[2].key, "set.gpu.sms");
}

TEST(Sweep, WrongGridsAreRefused) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"tp"}, "expected KEY=VALUE"},
      {{"=1"}, "expected KEY=VALUE"},
      {{"tp="}, "expected KEY=VALUE"},
      {{"tpp=1"}, "unknown key tpp; there are tiles, mesh, graph, dp"},
      {{"dim.=1"}, "unknown key dim."},
      {{"tp=1,,2"}, "an empty value"},
      {{"tp=1,1"}, "the value 1 is given twice"},
      {{"tp=1", "tp=2"}, "the key tp is given twice"},
  };
  for (const auto& [grid, message] : cases) {
    auto read = ParseGrid(grid);
    ASSERT_FALSE(read.ok()) << grid[0];
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(message));
  }
  auto points = Sweep({}, {{"tp", {"two"}}}, {});
  EXPECT_THAT(std::string(points.status().message()),
              HasSubstr("--grid tp: 'two' is no integer"));
}

TEST(Sweep, FlagsAndStylesAreKeys) {
  std::vector<SweepPoint> points =
      SweepOf({"tp=2", "tp-style=sequence,replicated,both", "graph=0,1"});
  ASSERT_EQ(points.size(), 6u);
  for (int i : {0, 2}) {
    EXPECT_GT(points[i].makespan_us, points[i + 1].makespan_us);
  }
  EXPECT_NE(points[0].makespan_us, points[2].makespan_us);
  EXPECT_THAT(points[4].error, HasSubstr("tp_style is 'both'"));
  points = SweepOf({"tp=2", "tp-style=sequence", "sums=collective,apart,all"});
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NE(points[0].makespan_us, points[1].makespan_us);
  EXPECT_THAT(points[2].error,
              HasSubstr("--sums is 'all', it should be one of"));
  auto wrong = Sweep({}, {{"graph", {"yes"}}}, {});
  EXPECT_EQ(wrong.status().message(), "--grid graph: 'yes' is neither 0 nor 1");
}

TEST(Sweep, TheLastAxisVariesFastestAndEachPointIsItsOwn) {
  std::vector<SweepPoint> points =
      SweepOf({"tp=1,2", "machine=a100x8,h200x8", "dim.seq=64"});
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[1].values, (std::vector<std::string>{"1", "h200x8", "64"}));
  EXPECT_EQ(points[2].values, (std::vector<std::string>{"2", "a100x8", "64"}));
  CompileOptions compile;
  compile.model = "llama3-tiny";
  compile.dims = {"seq=64"};
  compile.tp = 2;
  compile.machine = "h200x8";
  auto alone = Compile(compile);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(points[3].makespan_us, alone->simulated->makespan_us);
  EXPECT_EQ(
      points[3].peak_bytes,
      ReportMemory(alone->program, *alone->simulated, alone->costs->machine())
          .device_bytes);
}

TEST(Sweep, ThreadsDoNotMatter) {
  std::vector<std::string> grid = {"tp=1,2,4,5", "sp=1,2", "tiles=0,2"};
  size_t told = 0;
  SweepOptions counted{.threads = 4, .progress = [&](size_t, size_t all) {
                         ++told;
                         EXPECT_EQ(all, 16u);
                       }};
  auto axes = *ParseGrid(grid);
  EXPECT_EQ(SweepCsv(axes, SweepOf(grid, {.threads = 1})),
            SweepCsv(axes, SweepOf(grid, counted)));
  EXPECT_EQ(told, 16u);
}

TEST(Sweep, TheFrontHasAllThatNoPointBeats) {
  std::vector<SweepPoint> points = SweepOf({"tp=1,2,4", "dim.seq=64,128"});
  int on_front = 0;
  for (const SweepPoint& point : points) {
    bool beaten = false;
    for (const SweepPoint& other : points) {
      bool no_worse = other.makespan_us <= point.makespan_us &&
                      other.peak_bytes <= point.peak_bytes;
      bool better = other.makespan_us < point.makespan_us ||
                    other.peak_bytes < point.peak_bytes;
      beaten |= no_worse && better;
    }
    EXPECT_EQ(point.pareto, !beaten);
    on_front += point.pareto;
  }
  EXPECT_GE(on_front, 1);
}

TEST(Sweep, PointsThatCannotBeSayWhy) {
  auto axes = *ParseGrid({"machine=none,h200x8"});
  std::vector<SweepPoint> points = SweepOf({"machine=none,h200x8"});
  EXPECT_FALSE(points[0].valid());
  EXPECT_TRUE(points[1].valid());
  EXPECT_TRUE(CheckAnyValid(axes, points).ok());
  std::vector<SweepPoint> tight =
      SweepOf({"machine=none,h200x8"}, {.capacity_gib = 1e-6});
  absl::Status status = CheckAnyValid(axes, tight);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("none of 2 points is valid"),
                             HasSubstr("machine=none: "),
                             HasSubstr("machine=h200x8: does not fit")));
  EXPECT_FALSE(tight[1].pareto);
}

TEST(Sweep, CsvQuotesWhatNeedsIt) {
  std::vector<GridAxis> grid = {{"mesh", {"dp=2,tp=4"}}};
  SweepPoint point;
  point.values = {"dp=2,tp=4"};
  point.error = "a \"b\", c";
  EXPECT_THAT(SweepCsv(grid, {point}),
              HasSubstr("\n\"dp=2,tp=4\",,,,,,,,,,,,\"a \"\"b\"\", c\"\n"));
}

}  // namespace
}  // namespace asyra
