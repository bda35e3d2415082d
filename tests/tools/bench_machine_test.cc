// What a machine takes from what was measured.
#include <gmock/gmock.h>

#include <algorithm>

#include "ir/support/check.h"
#include "nlohmann/json.hpp"
#include "simulator/machine.h"
#include "tools/bench_grid.h"
#include "tools/bench_report.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

MeasuredCall Call(std::string text, double us, int ranks = 1) {
  return {std::move(text), ranks, {.us = us}};
}

// A GPU with 60 MB of cache.
BenchResult Measured(std::vector<MeasuredCall> calls) {
  BenchResult result;
  result.device = "D";
  result.libraries = "L";
  result.date = "2001-02-03";
  result.ranks = 8;
  result.cache_bytes = 60 << 20;
  result.calls = std::move(calls);
  return result;
}

Json MachineOf(const BenchResult& result) {
  std::string base = ASYRA_VALUE(MachineText("h200x8"));
  return Json::parse(
      ASYRA_VALUE(BenchMachine(result, "here", "here.table", base)));
}

double MemoryGbps(const BenchResult& result) {
  return MachineOf(result)["gpu"]["hbm_gbps"]["achievable"];
}

TEST(BenchMachine, MemorysRateIsThatOfWhatNoCacheHolds) {
  // 768 MiB in 200 us: 4027 GB/s; 192 MiB in 40: 5033, from a cache.
  MeasuredCall large = Call("add(bf16[32768,4096], bf16[32768,4096])", 200),
               small = Call("add(bf16[8192,4096], bf16[8192,4096])", 40);
  EXPECT_EQ(MemoryGbps(Measured({large, small})), 4030);
  // Where nothing is larger than caches, of what is a quarter as large.
  BenchResult only_small =
      Measured({small, Call("add(bf16[128,4096], bf16[128,4096])", 0.1)});
  EXPECT_EQ(MemoryGbps(only_small), 4800) << "the peak";
}

TEST(BenchMachine, BytesThatAreReadAgainAreCountedOnce) {
  // 16384 rows out of 16 MiB: 128 MiB are read and 128 MiB written in 50 us,
  // which were 5369 GB/s.
  BenchResult result =
      Measured({Call("embedding(bf16[2048,4096], i64[2,8192])", 50)});
  result.cache_bytes = 0;
  EXPECT_EQ(MemoryGbps(result), 3020);  // 144 MiB, and indices
}

TEST(BenchMachine, LinksAndCopyEnginesHaveARateEach) {
  // 8 ranks, 64 MiB: 7/8 of it in 200 us are 294 GB/s, in 160 us 367.
  std::string gather = "all_gather(bf16[33554432@x]) {dim=0, axes=x";
  BenchResult result = Measured({Call(gather + "}", 200, 8)});
  Json machine = MachineOf(result);
  double before = machine["host"]["copy_gbps"]["achievable"];
  EXPECT_EQ(machine["host"]["link_gbps"]["achievable"], 294);
  EXPECT_THAT(machine["sources"]["host"].get<std::string>(),
              HasSubstr("; its GPUs, shares beside computation, copy engines "
                        "as before"));
  result.calls.push_back(Call(gather + ", copies=true}", 160, 8));
  result.whole_host = true;
  result.pairs.push_back({"", "", CollectiveKind::kAllGather, {1, 1, 2, 4}});
  machine = MachineOf(result);
  EXPECT_EQ(machine["host"]["link_gbps"]["achievable"], 294);
  EXPECT_EQ(machine["host"]["copy_gbps"]["achievable"], 367);
  EXPECT_NE(before, 367);
  EXPECT_EQ(machine["host"]["collectives"]["all_gather"]["beside_compute"],
            0.25);
  EXPECT_EQ(machine["sources"]["host"], "asyra-bench on D, L, 2001-02-03");
}

TEST(BenchMachine, RefusesCallsThatNobodyCanRead) {
  auto machine = BenchMachine(Measured({Call("nod(f32[4])", 1)}), "here",
                              "here.table", ASYRA_VALUE(MachineText("h200x8")));
  EXPECT_THAT(machine.status().message(), HasSubstr("nod"));
  EXPECT_THAT(BenchMachine(Measured({}), "here", "t", "[").status().message(),
              HasSubstr("no JSON object"));
}

TEST(BenchGrid, HoldsCopiesOfWhatIsLongAndSumsNothing) {
  int copies = 0;
  for (const CollectiveCall& call : CollectiveGrid(GridOfGpu(), 8)) {
    if (call.text.find("copies=true") == std::string::npos) continue;
    ++copies;
    EXPECT_GE(ASYRA_VALUE(PayloadOf(call)), 1 << 20) << call.text;
    EXPECT_THAT(call.text, Not(HasSubstr("reduce")));
  }
  EXPECT_EQ(copies, 3 * 2 * 5) << "group sizes, kinds, payloads";
}

}  // namespace
}  // namespace asyra
