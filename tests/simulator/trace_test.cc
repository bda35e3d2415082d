#include "simulator/trace.h"

#include <map>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "tests/simulator/random_program.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

using Json = nlohmann::json;

Json TraceOf(const Program& program) {
  SimResult result = Simulate(program, CostModel(TestMachine(), program.mesh));
  return Json::parse(WriteChromeTrace(program, result), nullptr, false);
}

std::vector<Json> Events(const Json& trace, std::string_view phase) {
  std::vector<Json> events;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) events.push_back(event);
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
  std::vector<Json> slices = Events(trace, "X");
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[0]["name"], "ncclDevKernel_AllReduce");
  EXPECT_EQ(slices[0]["args"]["In msg nelems"], 500);
  EXPECT_EQ(slices[0]["args"]["Process Group Name"], "tp");
  EXPECT_EQ(slices[1]["name"], "neg");
  EXPECT_NE(slices[0]["tid"], slices[1]["tid"]);
  EXPECT_EQ(slices[1]["tid"], slices[2]["tid"]);
  EXPECT_FALSE(Events(trace, "C").empty());
}

TEST(Trace, AnArrowLeadsFromACollectiveToWhatWaited) {
  Json trace = TraceOf(Parse(kProgram));
  std::vector<Json> from = Events(trace, "s"), to = Events(trace, "f");
  std::vector<Json> slices = Events(trace, "X");
  ASSERT_EQ(from.size(), 1u);
  ASSERT_EQ(to.size(), 1u);
  EXPECT_EQ(from[0]["id"], to[0]["id"]);
  EXPECT_EQ(from[0]["ts"], slices[0]["ts"]);
  EXPECT_EQ(from[0]["tid"], slices[0]["tid"]);
  EXPECT_EQ(to[0]["ts"], slices[2]["ts"]);
  EXPECT_EQ(to[0]["bp"], "e");
}

// Perfetto drops slices that overlap on one track.
TEST(Trace, SlicesOfATrackNeverOverlap) {
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Json trace = TraceOf(Parse(RandomProgram(seed, 60, 2).text()));
    std::map<int, double> end;
    for (const Json& slice : Events(trace, "X")) {
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
