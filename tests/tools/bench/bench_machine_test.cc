// What a machine takes from what was measured.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "ir/parser.h"
#include "ir/support/check.h"
#include "nlohmann/json.hpp"
#include "simulator/cost/collective_cost.h"
#include "simulator/machine/machine.h"
#include "tools/bench/bench_grid.h"
#include "tools/bench/bench_memory.h"
#include "tools/bench/bench_report.h"

namespace asyra {
namespace {

using ::testing::AllOf;
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
  // 8 ranks, 64 MiB: 7/8 of it in 200 us are 294 GB/s, in 160 us, beside the
  // latency of copies, 367.
  std::string gather = "all_gather(bf16[33554432@x]) {dim=0, axes=x";
  BenchResult result = Measured({Call(gather + "}", 200, 8)});
  Json machine = MachineOf(result);
  double before = machine["host"]["copy_gbps"]["achievable"];
  EXPECT_EQ(machine["host"]["link_gbps"]["achievable"], 294);
  EXPECT_THAT(machine["sources"]["host"].get<std::string>(),
              HasSubstr("; its GPUs, shares beside computation, a CTA's rate, "
                        "copy engines as before"));
  double latency_us = CopyLatencyUs(CollectiveKind::kAllGather, 8);
  result.calls.push_back(
      Call(gather + ", transport=copy_engine}", latency_us + 160, 8));
  result.whole_host = true;
  result.pairs.push_back({"", "", CollectiveKind::kAllGather, {1, 1, 2, 4}});
  machine = MachineOf(result);
  EXPECT_EQ(machine["host"]["link_gbps"]["achievable"], 294);
  EXPECT_EQ(machine["host"]["copy_gbps"]["achievable"], 367);
  EXPECT_NE(before, 367);
  EXPECT_NE(machine["host"]["cta_gbps"], 7.25);
  result.cta_gbps = 7.25;
  EXPECT_EQ(MachineOf(result)["host"]["cta_gbps"], 7.25);
  EXPECT_EQ(machine["host"]["collectives"]["all_gather"]["beside_compute"],
            0.25);
  EXPECT_EQ(machine["sources"]["host"],
            "asyra-bench on D, L, 2001-02-03; a CTA's rate as before");
}

// A library that connects what a communicator of so many CTAs carries
// when it first does, and 5 ranks.
class Library : public RankTimer {
 public:
  int64_t rank() const override { return 0; }
  absl::StatusOr<Timing> TimeCollective(const CollectiveCall&, int) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<PairTiming> TimePair(const PairCall&, int) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<LoadPower> PowerOf(const Load&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<Timing> TimeSequence(absl::Span<const SequenceCall>,
                                      int) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<bool> Agree(bool mine) override { return mine; }

  absl::StatusOr<int64_t> BytesToCarry(const CollectiveCall& call) override {
    Mesh mesh = ASYRA_VALUE(Mesh::Create({{"x", call.ranks}}));
    ParsedCall parsed = ASYRA_VALUE(ParseCall(call.text, mesh));
    CollectiveKind kind = parsed.def->collective;
    if (kind == fails) return absl::InternalError("broken");
    std::string ctas = std::to_string(parsed.attrs.Int("ctas"));
    int64_t mib =
        Once("library", memory.collectives) + Once(ctas, memory.communicator);
    if (kind == CollectiveKind::kAllToAll) {
      mib += Once("exchanges", memory.exchanges) +
             Once(ctas + "peers", memory.peer * (call.ranks - 1));
    } else {
      mib += Once(ctas + "rings", memory.rings);
    }
    if (kind == CollectiveKind::kAllReduce) {
      mib += Once(ctas + "trees", memory.trees);
    }
    return mib << 20;
  }

  LibraryMemory memory = {.collectives = 300,
                          .exchanges = 60,
                          .communicator = 100,
                          .rings = 20,
                          .trees = 7,
                          .peer = 40};
  CollectiveKind fails = CollectiveKind::kNone;

 private:
  int64_t Once(const std::string& what, double mib) {
    return known_.insert(what).second ? static_cast<int64_t>(mib) : 0;
  }
  std::set<std::string> known_;
};

TEST(BenchMemory, TellsPartsOfTheCollectiveLibraryApart) {
  Library library;
  LibraryMemory found = ASYRA_VALUE(MeasureCollectiveMemory(library, 5));
  EXPECT_EQ(found.collectives, 300);
  EXPECT_EQ(found.exchanges, 60);
  EXPECT_EQ(found.communicator, 100);
  EXPECT_EQ(found.rings, 20);
  EXPECT_EQ(found.trees, 7);
  EXPECT_EQ(found.peer, 40);

  Library broken;
  broken.fails = CollectiveKind::kAllToAll;
  EXPECT_THAT(MeasureCollectiveMemory(broken, 5).status().message(),
              AllOf(HasSubstr("all_to_all"), HasSubstr("broken")));
}

TEST(BenchMachine, TakesOverTheMemoryThatWasMeasured) {
  BenchResult result = Measured({});
  Json before = MachineOf(result);
  EXPECT_THAT(before["sources"]["gpu"].get<std::string>(),
              HasSubstr("; peaks and memory of libraries as before"));
  result.context_mib = 901;
  Json machine = MachineOf(result);
  EXPECT_EQ(machine["gpu"]["library_mib"]["context"], 901);
  EXPECT_EQ(machine["gpu"]["library_mib"]["rings"],
            before["gpu"]["library_mib"]["rings"]);
  EXPECT_THAT(machine["sources"]["gpu"].get<std::string>(),
              HasSubstr("; peaks and memory of collectives as before"));
  result.collective_memory = Library().memory;
  machine = MachineOf(result);
  Machine read = ASYRA_VALUE(ParseMachine(machine.dump(), "here"));
  EXPECT_EQ(read.gpu.library_mib.rings, 20);
  EXPECT_EQ(read.gpu.library_mib.trees, 7);
  EXPECT_EQ(read.gpu.library_mib.workspace,
            before["gpu"]["library_mib"]["workspace"]);
  EXPECT_THAT(machine["sources"]["gpu"].get<std::string>(),
              HasSubstr("; peaks and memory of ops as before"));
}

TEST(BenchMachine, RefusesCallsThatNobodyCanRead) {
  auto machine = BenchMachine(Measured({Call("nod(f32[4])", 1)}), "here",
                              "here.table", ASYRA_VALUE(MachineText("h200x8")));
  EXPECT_THAT(machine.status().message(), HasSubstr("nod"));
  EXPECT_THAT(BenchMachine(Measured({}), "here", "t", "[").status().message(),
              HasSubstr("no JSON object"));
}

TEST(BenchGrid, HasCopyEnginesForWhatIsLongAndReducesNothing) {
  int copy_engines = 0;
  for (const CollectiveCall& call : CollectiveGrid(GridOfGpu(), 8)) {
    if (call.text.find("transport=copy_engine") == std::string::npos) continue;
    ++copy_engines;
    EXPECT_GE(ASYRA_VALUE(PayloadOf(call)), 1 << 20) << call.text;
    EXPECT_THAT(call.text, Not(HasSubstr("reduce")));
  }
  EXPECT_EQ(copy_engines, 3 * 2 * 5) << "group sizes, kinds, payloads";
}

}  // namespace
}  // namespace asyra
