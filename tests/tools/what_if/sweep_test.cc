#include "tools/what_if/sweep.h"

#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "simulator/report/profile.h"
#include "tools/what_if/mesh_grid.h"
#include "tools/what_if/sweep_marks.h"

namespace asyra {
namespace {

using testing::HasSubstr;

SweepResult ResultOf(const std::vector<std::string>& grid,
                     SweepOptions options = {}, double capacity_gib = -1) {
  CompileFlags compile;
  compile.capacity_gib = capacity_gib;
  compile.model = "llama3-tiny";
  compile.search_steps = 1;
  auto axes = ParseGrid(grid);
  EXPECT_TRUE(axes.ok()) << axes.status();
  auto points = Sweep(compile, *axes, options);
  EXPECT_TRUE(points.ok()) << points.status();
  return *std::move(points);
}

std::vector<SweepPoint> SweepOf(const std::vector<std::string>& grid,
                                SweepOptions options = {},
                                double capacity_gib = -1) {
  return ResultOf(grid, std::move(options), capacity_gib).points;
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

TEST(Sweep, FlagsAndStrategiesAreKeys) {
  std::vector<SweepPoint> points =
      SweepOf({"tp=2", "tp-strategy=sequence,replicated,both", "graph=0,1"});
  ASSERT_EQ(points.size(), 6u);
  for (int i : {0, 2}) {
    EXPECT_GT(points[i].makespan_us, points[i + 1].makespan_us);
  }
  EXPECT_NE(points[0].makespan_us, points[2].makespan_us);
  EXPECT_THAT(points[4].error, HasSubstr("tp_strategy is 'both'"));
  points = SweepOf(
      {"tp=2", "tp-strategy=sequence", "reduce-scatter=fused,decomposed,all"});
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NE(points[0].makespan_us, points[1].makespan_us);
  EXPECT_THAT(points[2].error,
              HasSubstr("--reduce-scatter is 'all', it should be one of"));
  auto wrong = Sweep({}, {{"graph", {"yes"}}}, {});
  EXPECT_EQ(wrong.status().message(), "--grid graph: 'yes' is neither 0 nor 1");
}

TEST(Sweep, TheLastAxisVariesFastestAndEachPointIsItsOwn) {
  std::vector<SweepPoint> points =
      SweepOf({"tp=1,2", "machine=a100x8,h200x8", "dim.seq=64"});
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[1].values, (std::vector<std::string>{"1", "h200x8", "64"}));
  EXPECT_EQ(points[2].values, (std::vector<std::string>{"2", "a100x8", "64"}));
  CompileFlags compile;
  compile.model = "llama3-tiny";
  compile.dims = {"seq=64"};
  compile.tp = 2;
  compile.machine = "h200x8";
  compile.search_steps = 1;
  auto alone = Compile(compile);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_THAT(points[3].found_for, testing::IsEmpty());
  EXPECT_EQ(points[3].makespan_us, alone->simulated->makespan_us);
  EXPECT_EQ(
      points[3].peak_bytes,
      ReportMemory(alone->program, *alone->simulated, alone->costs->machine())
          .device_bytes);
}

// A short search finds less for one of these links than for another.
TEST(Sweep, PointsTryTheSchedulesOfOtherMachines) {
  const std::vector<std::string> grid = {"tp=2", "dim.batch=4", "dim.seq=256",
                                         "machine=h200x8,b200x8",
                                         "set.host.link_gbps*=0.25,1,4"};
  std::vector<GridAxis> axes = *ParseGrid(grid);
  std::vector<SweepPoint> points = SweepOf(grid, {.threads = 1});
  ASSERT_EQ(points.size(), 6u);
  for (size_t i = 0; i < points.size(); ++i) {
    if (i % 3 > 0) {
      EXPECT_LE(points[i].makespan_us, points[i - 1].makespan_us);
    }
  }
  auto adopted = std::find_if(
      points.begin(), points.end(),
      [](const SweepPoint& point) { return !point.found_for.empty(); });
  ASSERT_NE(adopted, points.end());
  EXPECT_NE(adopted->found_for, adopted->values);
  EXPECT_FALSE(adopted->found_unchanged) << "it is one of the grid";
  CompileFlags alone;
  alone.model = "llama3-tiny";
  alone.search_steps = 1;
  alone.tp = 2;
  alone.dims = {"batch=4", "seq=256"};
  alone.machine = adopted->values[3];
  alone.set = {"host.link_gbps*=" + adopted->values[4]};
  absl::StatusOr<CompiledModel> compiled =
      CompileAlone(alone, ASYRA_VALUE(LoadRaised(alone)));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_LT(adopted->makespan_us, compiled->simulated->makespan_us);
  EXPECT_THAT(SweepText(axes, {points}),
              HasSubstr("found for tp=2 dim.batch=4"));
  EXPECT_THAT(SweepJson("m", axes, {points}), HasSubstr("\"found_for\""));
  EXPECT_EQ(SweepCsv(axes, {points}),
            SweepCsv(axes, ResultOf(grid, {.threads = 4})));
}

// The machine as it is need not be in the grid: kernels that cost more are
// ordered better as if they did not.
TEST(Sweep, PointsTryTheScheduleOfTheirMachineWithoutSet) {
  const std::vector<std::string> grid = {"tp=2", "dim.batch=4", "dim.seq=128",
                                         "set.gpu.kernel_us*=2"};
  std::vector<SweepPoint> points = SweepOf(grid);
  ASSERT_EQ(points.size(), 1u);
  EXPECT_TRUE(points[0].found_unchanged);
  EXPECT_EQ(points[0].found_for,
            (std::vector<std::string>{"2", "4", "128", ""}));
  EXPECT_THAT(
      SweepText(*ParseGrid(grid), {points}),
      HasSubstr("found for tp=2 dim.batch=4 dim.seq=128 without --set\n"));
  CompileFlags alone;
  alone.model = "llama3-tiny";
  alone.search_steps = 1;
  alone.tp = 2;
  alone.dims = {"batch=4", "seq=128"};
  alone.set = {"gpu.kernel_us*=2"};
  EXPECT_EQ(points[0].makespan_us,
            ASYRA_VALUE(Compile(alone)).simulated->makespan_us);
}

TEST(Sweep, ThreadsDoNotMatter) {
  std::vector<std::string> grid = {"tp=1,2,4,5", "sp=1,2", "tiles=0,2"};
  size_t told = 0;  // from 0 points done to all
  SweepOptions counted{.threads = 4, .progress = [&](size_t done, size_t all) {
                         EXPECT_EQ(done, told++);
                         EXPECT_EQ(all, 16u);
                       }};
  auto axes = *ParseGrid(grid);
  EXPECT_EQ(SweepCsv(axes, ResultOf(grid, {.threads = 1})),
            SweepCsv(axes, ResultOf(grid, counted)));
  EXPECT_EQ(told, 17u);
}

TEST(Sweep, TheFrontHasAllThatNoPointBeats) {
  std::vector<SweepPoint> points =
      SweepOf({"tp=1,2", "dim.seq=64,128", "machine=h200x8,a800x8"});
  int on_front = 0;
  for (const SweepPoint& point : points) {
    bool beaten = false;
    for (const SweepPoint& other : points) {
      // Shorter sequences and other machines beat nothing.
      if (other.values[1] != point.values[1]) continue;
      if (other.values[2] != point.values[2]) continue;
      bool tie =
          IsTie(other.makespan_us, other.noise, point.makespan_us, point.noise);
      bool no_worse = (tie || other.makespan_us <= point.makespan_us) &&
                      other.peak_bytes <= point.peak_bytes;
      bool better = (!tie && other.makespan_us < point.makespan_us) ||
                    other.peak_bytes < point.peak_bytes;
      beaten |= no_worse && better;
    }
    EXPECT_EQ(point.pareto, !beaten);
    on_front += point.pareto;
  }
  EXPECT_GE(on_front, 4);
}

// No byte leaves the host, whatever the network does.
TEST(Sweep, WhatTheSearchCannotTellApartIsATie) {
  const std::vector<std::string> grid = {"tp=2", "set.network.gbps*=1,2",
                                         "machine=h200x8,a800x8"};
  std::vector<GridAxis> axes = *ParseGrid(grid);
  std::vector<SweepPoint> points = SweepOf(grid);
  ASSERT_EQ(points.size(), 4u);
  for (int i : {0, 1}) {
    EXPECT_EQ(points[i].makespan_us, points[i + 2].makespan_us);
    EXPECT_EQ(points[i].rank, points[i + 2].rank);
    EXPECT_TRUE(points[i].tie && points[i + 2].tie);
    EXPECT_GE(points[i].noise, kLeastNoise);
  }
  EXPECT_EQ(points[0].rank, 1);
  EXPECT_EQ(points[1].rank, 3);
  EXPECT_THAT(SweepText(axes, {points}),
              testing::AllOf(HasSubstr(" us~ "), HasSubstr("\n~ a tie: ")));
  EXPECT_THAT(SweepCsv(axes, {points}), HasSubstr(",pareto,rank,tie,noise,"));
  EXPECT_THAT(SweepJson("m", axes, {points}), HasSubstr("\"tie\": true"));
  EXPECT_THAT(SweepText(axes, {{points[0]}}),
              testing::Not(HasSubstr("devices than")));
  points = SweepOf({"machine=h200x8,a800x8"});
  EXPECT_FALSE(points[0].tie || points[1].tie);
}

// A sweep that is stopped keeps the points that were done.
TEST(Sweep, RowsComeAsPointsFinish) {
  auto grid = *ParseGrid({"tp=1,2"});
  std::vector<std::string> rows;
  SweepResult result =
      ResultOf({"tp=1,2"},
               {.threads = 1, .finished = [&](const SweepPoint& point) {
                  rows.push_back(SweepCsvRow(grid, point, 0, /*marked=*/false));
                }});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[0], testing::StartsWith("1,1,"));
  EXPECT_THAT(rows[1], HasSubstr(",true,,,,"));
  auto commas = [](const std::string& row) {
    return std::count(row.begin(), row.end(), ',');
  };
  for (const std::string& row : rows) {
    EXPECT_EQ(commas(row), commas(SweepCsvHead(grid)));
  }
  SweepPoint failed{.values = {"3"}, .error = "no"};
  EXPECT_EQ(commas(SweepCsvRow(grid, failed, 0, true)),
            commas(SweepCsvHead(grid)));
}

TEST(Sweep, FormulasBesideMeasurementsAreTold) {
  auto grid = *ParseGrid({"machine=h100x8,h200x8"});
  SweepResult result = ResultOf({"machine=h100x8,h200x8"});
  result.points[0].formula = 1;
  result.points[1].formula = 0.04;
  EXPECT_THAT(SweepText(grid, result),
              HasSubstr("note: do not rank machine=h100x8 against "
                        "machine=h200x8: 100.0 % of the first rests on "
                        "formulas"));
  EXPECT_THAT(SweepJson("m", grid, result), HasSubstr("\"notes\": ["));
  result.points[0].formula = 0.1;
  EXPECT_THAT(SweepText(grid, result), testing::Not(HasSubstr("do not rank")));
}

TEST(Sweep, MeshesAreAllProductsOfTheRanks) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(MeshesOf(1, {"dp", "tp"}), Texts{"dp=1"});
  EXPECT_EQ(MeshesOf(6, {"dp", "tp"}),
            (Texts{"dp=6", "dp=3,tp=2", "dp=2,tp=3", "tp=6"}));
  EXPECT_EQ(MeshesOf(64, {"dp", "sp", "tp"}).size(), 28u);
  CompileFlags compile;
  compile.model = "qwen3-moe-tiny";
  compile.ranks = 2;
  auto grid = *ParseGrid({"mesh=auto"});
  ASYRA_CHECK_OK(ExpandMeshes(compile, &grid));
  EXPECT_EQ(grid[0].values, (Texts{"dp=2", "ep=2", "sp=2", "tp=2"}));
  grid = *ParseGrid({"mesh=auto,tp=2"});
  EXPECT_THAT(ExpandMeshes(compile, &grid).message(),
              HasSubstr("auto stands alone"));
}

TEST(Sweep, ThePromisingAreSearched) {
  auto grid = *ParseGrid({"machine=a,b", "tp=1,2,4"});
  std::vector<SweepPoint> points;
  double us = 100;
  for (const char* machine : {"a", "b"}) {
    for (const char* tp : {"1", "2", "4"}) {
      points.push_back({.values = {machine, tp},
                        .fits = true,
                        .makespan_us = us,
                        .lower_bound_us = 50,
                        .peak_bytes = static_cast<int64_t>(us)});
      us -= 10;
    }
  }
  points[2].fits = false;  // the fastest of machine a
  for (size_t i : {3, 4, 5}) points[i].fits = false;
  points[4].peak_bytes = 1;
  std::vector<size_t> chosen;
  for (SweepPoint* point : Promising(grid, 1, &points)) {
    chosen.push_back(point - points.data());
  }
  EXPECT_EQ(chosen, (std::vector<size_t>{1, 4}));
  // Times without a schedule are not compared with those of schedules.
  points[0].estimated = points[1].estimated = true;
  points[2].fits = true;
  MarkRanks(grid, &points);
  EXPECT_EQ(points[1].rank, 0);
  EXPECT_EQ(points[2].rank, 1);
}

TEST(Sweep, OtherRanksAreSkippedAndCounted) {
  CompileFlags compile;
  compile.model = "llama3-tiny";
  compile.search_steps = 1;
  compile.ranks = 4;
  auto grid = *ParseGrid({"tp=1,2,4", "sp=1,2"});
  SweepResult result = ASYRA_VALUE(Sweep(compile, grid, {}));
  ASSERT_EQ(result.points.size(), 2u);
  EXPECT_EQ(result.points[0].values, (std::vector<std::string>{"2", "2"}));
  EXPECT_EQ(result.points[1].values, (std::vector<std::string>{"4", "1"}));
  EXPECT_EQ(result.skipped, 4u);
  EXPECT_THAT(SweepText(grid, result),
              HasSubstr("\n4 combinations of another number of devices than "
                        "--ranks skipped\n"));
  EXPECT_THAT(SweepJson("m", grid, result), HasSubstr("\"skipped\": 4,"));
  EXPECT_THAT(SweepCsv(grid, result), HasSubstr(",4,,false,\n"));
  compile.ranks = 3;
  EXPECT_EQ(Sweep(compile, grid, {}).status().message(),
            "--ranks is 3: none of 6 combinations has as many devices");
}

// Tokens that sp does not divide leave the matmuls to all of its devices.
TEST(Sweep, OneLineTellsOfWhatAllDevicesCompute) {
  SweepResult result = ResultOf({"sp=1,2", "dim.seq=63"});
  auto grid = *ParseGrid({"sp=1,2", "dim.seq=63"});
  EXPECT_EQ(result.points[0].redundant, 0);
  EXPECT_GT(result.points[1].redundant, 0.5);
  EXPECT_THAT(SweepText(grid, result),
              HasSubstr("\nnote: 1 of 2 points compute the same on all devices "
                        "of an axis; most sp=2 dim.seq=63: "));
}

// 4 heads of keys over tp and sp: over 8 devices they are gathered.
TEST(Sweep, OneLineTellsOfAnAxisThatDoesNotDivideHeads) {
  auto grid = *ParseGrid({"tp=2,4", "sp=2"});
  SweepResult result = ResultOf({"tp=2,4", "sp=2"});
  EXPECT_EQ(result.points[0].undivided, "");
  EXPECT_THAT(SweepText(grid, result),
              HasSubstr("\nnote: 1 of 2 points have an axis that does not "
                        "divide an op; tp=4 sp=2: axis sp of size 2 does not "
                        "divide attention "));
}

TEST(Sweep, CostsByFormulaAreToldAsAShareOfTime) {
  for (const SweepPoint& point : SweepOf({"machine=h200x8,a800x8"})) {
    EXPECT_LE(point.formula, 1);
    EXPECT_GE(point.formula, point.values[0] == "a800x8" ? 0.5 : 0);
  }
}

TEST(Sweep, PointsThatCannotBeSayWhy) {
  auto axes = *ParseGrid({"machine=none,h200x8"});
  std::vector<SweepPoint> points = SweepOf({"machine=none,h200x8"});
  EXPECT_FALSE(points[0].valid());
  EXPECT_TRUE(points[1].valid());
  EXPECT_TRUE(CheckAnyValid(axes, points).ok());
  std::vector<SweepPoint> tight =
      SweepOf({"machine=none,h200x8"}, {}, /*capacity_gib=*/1e-6);
  absl::Status status = CheckAnyValid(axes, tight);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("none of 2 points is valid"),
                             HasSubstr("machine=none: "),
                             HasSubstr("machine=h200x8: does not fit")));
  EXPECT_FALSE(tight[1].pareto);
}

TEST(Sweep, PointsSayWhatTheirStepIs) {
  auto same = *ParseGrid({"dim.batch=4", "dim.seq=64", "tp=1,2"});
  SweepResult one = {SweepOf({"dim.batch=4", "dim.seq=64", "tp=1,2"})};
  EXPECT_EQ(one.points[0].step, (StepShape{4, {64}, "f32"}));
  std::string text = SweepText(same, one);
  EXPECT_THAT(text, testing::StartsWith("step: batch 4, 64 tokens, f32\n"));
  EXPECT_THAT(text, HasSubstr("tokens/s"));
  EXPECT_THAT(
      SweepCsv(same, one),
      testing::AllOf(HasSubstr(",batch,tokens,dtype,unit,tokens_per_s,"),
                     HasSubstr("\n4,64,1,1,4,64,f32,tokens,")));
  EXPECT_THAT(SweepJson("m", same, one), HasSubstr("\"tokens_per_s\""));
  auto other = *ParseGrid({"dim.seq=64,128"});
  SweepResult two = {SweepOf({"dim.seq=64,128"})};
  EXPECT_THAT(SweepText(other, two),
              testing::AllOf(HasSubstr(", 64 tokens, f32\n"),
                             HasSubstr(", 128 tokens, f32\n"),
                             testing::Not(HasSubstr("step: "))));
}

TEST(Sweep, CsvQuotesWhatNeedsIt) {
  std::vector<GridAxis> grid = {{"mesh", {"dp=2,tp=4"}}};
  SweepPoint point;
  point.values = {"dp=2,tp=4"};
  point.error = "a \"b\", c";
  EXPECT_THAT(SweepCsv(grid, {{point}}),
              HasSubstr("\n\"dp=2,tp=4\"," + std::string(22, ',') +
                        "0,,,\"a \"\"b\"\", c\"\n"));
}

}  // namespace
}  // namespace asyra
