#include "simulator/report/trace.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "gmock/gmock.h"
#include "simulator/report/profile_json.h"
#include "tests/simulator/replay/random_program.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

using Json = nlohmann::json;

Json TraceOf(const Program& program) {
  Machine machine = TestMachine();
  machine.launch_us = 0.5;
  SimResult result = Simulate(program, CostModel(machine, program.mesh));
  return Json::parse(WriteChromeTrace(program, result, machine), nullptr,
                     false);
}

// Those of a phase, and of a category where one is given.
std::vector<Json> Events(const Json& trace, std::string_view phase,
                         std::string_view category = "") {
  std::vector<Json> events;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != phase) continue;
    if (category.empty() || event["cat"] == category) events.push_back(event);
  }
  return events;
}

constexpr std::string_view kProgram = R"(asyra 1 scheduled
mesh (tp=2)
program @mlp(%x: f32[500] partial(tp), %y: f32[500]) -> (f32[500], f32[500]) {
  %f = start all_reduce(%x) {axes=tp} on comm : future f32[500]
  %a = neg(%y) on compute : f32[500]
  %r = wait(%f) on compute : f32[500]
  %b = neg(%r) on compute : f32[500]
  return %a, %b
})";

TEST(Trace, HasTheShapeOfAProfile) {
  Json trace = TraceOf(Parse(kProgram));
  ASSERT_TRUE(trace.is_object());
  EXPECT_EQ(trace["distributedInfo"]["pg_config"][0]["ranks"],
            Json::array({0, 1}));
  std::vector<Json> slices = Events(trace, "X", "kernel");
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[0]["name"], "ncclDevKernel_AllReduce");
  EXPECT_EQ(slices[0]["args"]["In msg nelems"], 500);
  EXPECT_EQ(slices[0]["args"]["Process Group Name"], "tp");
  EXPECT_EQ(slices[0]["args"]["transport"], "library");
  EXPECT_EQ(slices[1]["name"], "neg");
  EXPECT_NE(slices[0]["tid"], slices[1]["tid"]);
  EXPECT_EQ(slices[1]["tid"], slices[2]["tid"]);
  EXPECT_FALSE(Events(trace, "C").empty());
}

TEST(Trace, OfTwoStepsHasADeviceForEach) {
  Program program = Parse(kProgram);
  Machine machine = TestMachine();
  SimResult result = Simulate(program, CostModel(machine, program.mesh));
  std::string text = WriteChromeTrace(
      {{program, result, "after"}, {program, result, "before"}}, machine);
  Json trace = Json::parse(text, nullptr, false);
  ASSERT_TRUE(trace.is_object());
  EXPECT_EQ(trace["deviceProperties"].size(), 2u);
  std::map<int, int> kernels;
  std::set<int> ids;
  for (const Json& slice : Events(trace, "X", "kernel")) {
    ++kernels[slice["pid"].get<int>()];
    ids.insert(slice["args"]["correlation"].get<int>());
  }
  EXPECT_EQ(kernels, (std::map<int, int>{{0, 3}, {1, 3}}));
  EXPECT_EQ(ids.size(), 6u);
  std::map<int, int> arrows;
  for (const Json& arrow : Events(trace, "s")) ++arrows[arrow["id"].get<int>()];
  for (auto [id, count] : arrows) EXPECT_EQ(count, 1) << id;
  std::set<std::string> names;
  for (const Json& event : Events(trace, "M")) {
    if (event["name"] == "process_name") {
      names.insert(event["args"]["name"].get<std::string>());
    }
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"host", "mlp, after", "mlp, before"}));
  // Read back it is the first.
  auto read = ReadProfile(text, "a.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ops.size(), 3u);
  EXPECT_EQ(read->memory.size(), result.memory.size());
}

TEST(Trace, AnArrowLeadsFromACollectiveToWhatWaited) {
  Json trace = TraceOf(Parse(kProgram));
  std::vector<Json> from = Events(trace, "s", "wait");
  std::vector<Json> to = Events(trace, "f", "wait");
  std::vector<Json> slices = Events(trace, "X", "kernel");
  ASSERT_EQ(from.size(), 1u);
  ASSERT_EQ(to.size(), 1u);
  EXPECT_EQ(from[0]["id"], to[0]["id"]);
  double end = slices[0]["ts"].get<double>() + slices[0]["dur"].get<double>();
  EXPECT_NEAR(from[0]["ts"].get<double>(), end - 0.001, 1e-9);
  EXPECT_EQ(from[0]["tid"], slices[0]["tid"]);
  EXPECT_EQ(to[0]["ts"], slices[2]["ts"]);
  EXPECT_EQ(to[0]["bp"], "e");
}

// How profilers tie a launch to its kernel.
TEST(Trace, EachKernelHasItsLaunch) {
  Json trace = TraceOf(Parse(kProgram));
  std::vector<Json> kernels = Events(trace, "X", "kernel");
  std::vector<Json> launches = Events(trace, "X", "cuda_runtime");
  std::vector<Json> from = Events(trace, "s", "ac2g");
  std::vector<Json> to = Events(trace, "f", "ac2g");
  ASSERT_EQ(launches.size(), kernels.size());
  ASSERT_EQ(from.size(), kernels.size());
  for (size_t i = 0; i < kernels.size(); ++i) {
    EXPECT_EQ(launches[i]["args"]["correlation"],
              kernels[i]["args"]["correlation"]);
    EXPECT_LE(launches[i]["ts"].get<double>() + 0.5,
              kernels[i]["ts"].get<double>() + 1e-9);
    EXPECT_NE(launches[i]["pid"], kernels[i]["pid"]);
    EXPECT_EQ(from[i]["ts"], launches[i]["ts"]);
    EXPECT_EQ(to[i]["ts"], kernels[i]["ts"]);
    EXPECT_EQ(to[i]["tid"], kernels[i]["tid"]);
  }
}

// Every end of an arrow is in a slice of its track, or nothing holds it.
TEST(Trace, ArrowsBeginAndEndInSlices) {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    Json trace = TraceOf(Parse(RandomProgram(seed, 60, 2).text()));
    std::vector<Json> slices = Events(trace, "X");
    for (const char* phase : {"s", "f"}) {
      for (const Json& arrow : Events(trace, phase)) {
        double ts = arrow["ts"].get<double>();
        bool held = false;
        for (const Json& slice : slices) {
          double start = slice["ts"].get<double>();
          held |= slice["pid"] == arrow["pid"] &&
                  slice["tid"] == arrow["tid"] && start <= ts &&
                  ts < start + slice["dur"].get<double>() + 1e-7;
        }
        EXPECT_TRUE(held) << arrow;
      }
    }
  }
}

// Perfetto drops slices that overlap on one track.
TEST(Trace, SlicesOfATrackNeverOverlap) {
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Json trace = TraceOf(Parse(RandomProgram(seed, 60, 2).text()));
    std::map<int, double> end;
    for (const Json& slice : Events(trace, "X", "kernel")) {
      EXPECT_GE(slice["ts"].get<double>(), end[slice["tid"]] - 1e-7);
      end[slice["tid"]] =
          slice["ts"].get<double>() + slice["dur"].get<double>();
    }
    EXPECT_GE(end.size(), 3u);
  }
}

TEST(Trace, NamesAreEscaped) {
  Program program = Parse(kProgram);
  program.name = "a\"b\\\xff";
  EXPECT_TRUE(TraceOf(program).is_object());
}

}  // namespace
}  // namespace asyra
