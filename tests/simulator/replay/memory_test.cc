#include "gmock/gmock.h"
#include "ir/builder.h"
#include "simulator/replay/library_memory.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

SimResult SimulateText(std::string_view text) {
  Program program = Parse(text);
  return Simulate(program, CostModel(TestMachine(), program.mesh),
                  {.contention = false});
}

// f32[500] is 2000 bytes.
TEST(Memory, FreesOperandsAfterTheirLastUse) {
  SimResult result = SimulateText(R"(asyra 1 local
program @f(%x: f32[500], %w: f32[500] weight) -> (f32[500]) {
  %a = neg(%x) : f32[500]
  %b = neg(%a) : f32[500]
  %c = add(%a, %b) : f32[500]
  %d = add(%c, %w) : f32[500]
  return %d
})");
  // Inputs 4000, and at most %a, %b and %c.
  EXPECT_EQ(result.peak_bytes, 4000 + 6000);
  EXPECT_EQ(result.weight_bytes, 2000);
  ASSERT_EQ(result.memory.size(), 5u);
  EXPECT_EQ(result.memory[0].live_bytes, 6000);
  EXPECT_EQ(result.memory[1].live_bytes, 8000);
  EXPECT_EQ(result.memory[2].live_bytes, 10000);
  EXPECT_EQ(result.memory[3].live_bytes, 8000);  // %c and %d
  EXPECT_EQ(result.memory[4].live_bytes, 6000);  // %d stays
}

TEST(Memory, ShardsCountWhatOneDeviceHolds) {
  SimResult result = SimulateText(R"(asyra 1 local
mesh (dp=2, tp=2)
program @f(%x: f32[500@(dp,tp)]) -> (f32[500@dp]) {
  %a = all_gather(%x) {dim=0, axes=tp} : f32[500@dp]
  return %a
})");
  EXPECT_EQ(result.peak_bytes, 500 + 1000);
}

TEST(Memory, OperandsOfAStartLiveUntilItsWait) {
  SimResult result = SimulateText(R"(asyra 1 scheduled
mesh (tp=2)
program @f(%x: f32[500], %y: f32[500]) -> (f32[500], f32[500]) {
  %p = neg(%x) on compute : f32[500] partial(tp)
  %f = start all_reduce(%p) {axes=tp} on comm : future f32[500]
  %a = neg(%y) on compute : f32[500]
  %b = neg(%a) on compute : f32[500]
  %c = neg(%b) on compute : f32[500]
  %d = neg(%c) on compute : f32[500]
  %r = wait(%f) on compute : f32[500]
  return %r, %d
})");
  // At the last neg: two inputs, %p (done at 16 us, waited for at 20), the
  // sum, %c and %d.
  EXPECT_EQ(result.peak_bytes, 6 * 2000);
  EXPECT_EQ(result.memory.back().live_bytes, 4 * 2000);
  EXPECT_DOUBLE_EQ(result.memory.back().time_us, 20);
}

// The same, but for a second sum in the first: what is waited for first frees
// the operands of both.
TEST(Memory, OperandsOfAJoinedStartLiveUntilItsFirstWait) {
  auto peak = [](std::string_view first, std::string_view second) {
    return SimulateText(fmt::format(R"(asyra 1 scheduled
mesh (tp=2)
program @f(%x: f32[500], %y: f32[500]) -> (f32[500], f32[500], f32[500]) {{
  %p = neg(%x) on compute : f32[500] partial(tp)
  %q = neg(%p) on compute : f32[500] partial(tp)
  %f, %g = start all_reduce(%p, %q) {{axes=tp}} on comm : future f32[500], future f32[500]
{}  %a = exp(%y) on compute : f32[500]
  %b = exp(%a) on compute : f32[500]
  %c = exp(%b) on compute : f32[500]
{}  return %r, %s, %c
}})",
                                    first, second))
        .peak_bytes;
  };
  constexpr std::string_view kR = "  %r = wait(%f) on compute : f32[500]\n";
  constexpr std::string_view kS = "  %s = wait(%g) on compute : f32[500]\n";
  // Two inputs, two summands, two sums, and two of the chain.
  EXPECT_EQ(peak("", fmt::format("{}{}", kR, kS)), 8 * 2000);
  for (auto [first, second] : {std::pair(kR, kS), std::pair(kS, kR)}) {
    EXPECT_EQ(peak(first, second), 6 * 2000);
  }
}

TEST(Memory, ViewsAreTheirOperandAndConstantsStay) {
  Builder builder({}, Stage::kLocal);
  ValueId x = builder.Input("x", Type(DType::kF32, {500}));
  ValueId a = ASYRA_VALUE(builder.AddOne("neg", {x}));
  ValueId view =
      ASYRA_VALUE(builder.AddOne("reshape", {a}, {{"shape", Ints{50, 10}}}));
  ValueId b = ASYRA_VALUE(builder.AddOne("neg", {view}));
  ValueId c = ASYRA_VALUE(builder.AddOne("neg", {b}));
  builder.Constant(Tensor(DType::kF32, {25}));
  builder.Output(c);
  SimResult result = Simulate(builder.program(), CostModel(TestMachine(), {}));
  // %x, the constant and two of the chain; %a lives until the view was read.
  EXPECT_EQ(result.peak_bytes, 2000 + 100 + 4000);
  ASSERT_EQ(result.memory.size(), 4u);
  EXPECT_DOUBLE_EQ(result.memory[2].time_us, 8);
  EXPECT_EQ(result.memory[2].live_bytes, result.peak_bytes);
}

TEST(Memory, AliasedOutputsAreWrittenInPlace) {
  SimResult result = SimulateText(R"(asyra 1 local
program @f(%x: f32[500], %m: f32[500] state) -> (f32[500]) {
  %a = add(%m, %x) : f32[500]
  return %a alias %m
})");
  EXPECT_EQ(result.peak_bytes, 4000);
  EXPECT_EQ(result.weight_bytes, 2000);
}

// A matmul is added to what nothing else reads in its buffer, before offsets
// say so.
TEST(Memory, SumsAreInPlaceWhereNothingElseReadsWhatTheyAddTo) {
  auto peak = [](std::string_view read_later) {
    return SimulateText(fmt::format(R"(asyra 1 local
program @f(%x: f32[10, 50]) -> (f32[50, 50], f32[50, 50]) {{
  %a = matmul_wgrad(%x, %x) : f32[50, 50]
  %b = fusion(%x, %a) {{
    %2 = matmul_wgrad(%0, %0) : f32[50, 50]
    %3 = add(%1, %2) : f32[50, 50]
    return %3
  }} : f32[50, 50]
  %c = neg({}) : f32[50, 50]
  return %b, %c
}})",
                                    read_later))
        .peak_bytes;
  };
  EXPECT_EQ(peak("%b"), 2000 + 2 * 10000);
  EXPECT_EQ(peak("%a"), 2000 + 3 * 10000);
}

TEST(Memory, CopyEnginesNeedMemoryForChunksInsteadOfCommunicators) {
  Machine machine = TestMachine();
  machine.gpu.library_mib.collectives = 7;
  machine.copy_engines = 2;
  machine.p2p = true;
  auto device_beyond_arena = [&](std::string_view op) {
    Program program = Parse(fmt::format(R"(asyra 1 local
mesh (tp=4)
program @f(%x: f32[400] partial(tp)) -> (f32[400]) {{
  %y = {} : f32[400]
  return %y
}})",
                                        op));
    SimResult result = Simulate(program, CostModel(machine, program.mesh));
    MemoryReport report = ReportMemory(program, result, machine);
    return report.device_bytes - report.arena_bytes;
  };
  EXPECT_EQ(device_beyond_arena("all_reduce(%x) {axes=tp}"), 7 << 20);
  EXPECT_EQ(
      device_beyond_arena("all_reduce(%x) {axes=tp, transport=copy_engine}"),
      3 * 400);
  machine.copy_engines = 0;  // nothing to carry them
  EXPECT_EQ(
      device_beyond_arena("all_reduce(%x) {axes=tp, transport=copy_engine}"),
      7 << 20);
}

// What libraries take, but for each op, of a program that begins with an
// all_to_all of the attributes `exchange` and goes on with `more`.
int64_t LibraryMib(std::string_view exchange, std::string_view more) {
  Machine machine = TestMachine();
  machine.gpu.library_mib = {.context = 1,
                             .op = 1e6,
                             .collectives = 2,
                             .exchanges = 4,
                             .communicator = 10,
                             .rings = 200,
                             .trees = 3000,
                             .peer = 40000};
  Program program = Parse(fmt::format(R"(asyra 1 local
mesh (tp=4)
program @f(%x: f32[400, 4@tp]) -> (f32[400, 4]) {{
  %y = all_to_all(%x) {{from=1, to=0, axes=tp{}}} : f32[400@tp, 4]
{}
  return %r
}})",
                                      exchange, more));
  return (LibraryBytes(program, machine) >> 20) -
         1'000'000 * static_cast<int64_t>(program.ops.size());
}

TEST(Memory, ACommunicatorIsOfItsAxesAndCtas) {
  constexpr std::string_view kExchanges =
      R"(  %z = all_to_all(%y) {from=0, to=1, axes=tp} : f32[400, 4@tp]
  %w = all_to_all(%z) {from=1, to=0, axes=tp} : f32[400@tp, 4]
  %r = all_gather(%w) {dim=0, axes=tp} : f32[400, 4])";
  constexpr int64_t kOnce = 1 + 2 + 4, kPeers = 3 * 40000, kRings = 200;
  EXPECT_EQ(LibraryMib("", kExchanges), kOnce + 10 + kPeers + kRings);
  // As many CTAs as all take that are not told.
  EXPECT_EQ(LibraryMib(", ctas=50", kExchanges),
            kOnce + 2 * (10 + kPeers) + kRings);
  EXPECT_EQ(LibraryMib(", ctas=25", kExchanges),
            kOnce + 5 + kPeers / 2 + 10 + kPeers + kRings);
  EXPECT_EQ(LibraryMib(", ctas=60", kExchanges),
            kOnce + 2 * (10 + kPeers) + kRings);
}

TEST(Memory, CommunicatorsConnectWhatTheirCollectivesUse) {
  EXPECT_EQ(LibraryMib(", transport=copy_engine",
                       "  %r = all_gather(%y) {dim=0, axes=tp} : f32[400, 4]"),
            1 + 2 + 10 + 200);
  EXPECT_EQ(
      LibraryMib(", transport=copy_engine",
                 R"(  %s = reduce_sum(%x) {dims=[1]} : f32[400, 1] partial(tp)
  %t = all_reduce(%s) {axes=tp} : f32[400, 1]
  %r = broadcast(%t) {shape=[400, 4]} : f32[400, 4])"),
      1 + 2 + 10 + 200 + 3000);
  EXPECT_EQ(
      LibraryMib(
          "",
          R"(  %r = all_gather(%y) {dim=0, axes=tp, transport=copy_engine} : f32[400, 4])"),
      1 + 2 + 4 + 10 + 3 * 40000);
}

// Messages of chunk plans have a communicator of their own, of as many CTAs as
// pieces leave SMs.
TEST(Memory, PlansWithExchangesHaveACommunicator) {
  constexpr std::string_view kOverlap = R"(  %r = overlap(%y) {{
    %1 = all_gather(%0) {{dim=0, axes=tp}} : f32[400, 4]
    %2 = relu(%1) : f32[400, 4]
    return %2
  }} {{{}}} : f32[400, 4])";
  auto mib = [&](std::string_view attrs) {
    return LibraryMib(", transport=copy_engine", fmt::format(kOverlap, attrs));
  };
  constexpr int64_t kPeers = 3 * 40000;
  EXPECT_EQ(mib("transport=library"), 1 + 2 + 4 + 10 + kPeers);
  EXPECT_EQ(mib("transport=copy_engine"), 1);
}

int64_t WorkspaceOf(std::string_view body) {
  Machine machine = TestMachine();
  machine.gpu.library_mib.workspace = 1;
  Program program = Parse(fmt::format(R"(asyra 1 local
mesh (tp=2)
program @f(%x: f32[16, 4, 8@tp], %y: f32[16, 4@tp, 8],
    %z: f32[8, 4@tp, 8]) -> (f32[16, 4, 8]) {{
{}
  return %r
}})",
                                      body));
  return WorkspaceBytes(program, machine);
}

// 16 * 4 * 8 * 4 = 2048 bytes, a half of which a device has of a shard.
TEST(Memory, CollectivesWorkInWhatTheyPack) {
  constexpr std::string_view kGather =
      "  %r = all_gather(%y) {dim=1, axes=tp} : f32[16, 4, 8]";
  EXPECT_EQ(WorkspaceOf(kGather), 2048);
  // Along the first dimension nothing is apart, with 8 runs a call for each.
  EXPECT_EQ(
      WorkspaceOf(
          R"(  %a = all_to_all(%x) {from=2, to=0, axes=tp} : f32[16@tp, 4, 8]
  %r = all_gather(%a) {dim=0, axes=tp} : f32[16, 4, 8])"),
      1024);
  EXPECT_EQ(WorkspaceOf(R"(  %a = all_gather(%z) {dim=1, axes=tp} : f32[8, 4, 8]
  %r = concat(%a, %a) {dim=0} : f32[16, 4, 8])"),
            0);
  // Packed before and unpacked after.
  EXPECT_EQ(
      WorkspaceOf(
          R"(  %a = all_to_all(%x) {from=2, to=1, axes=tp} : f32[16, 4@tp, 8]
  %r = all_gather(%a) {dim=1, axes=tp} : f32[16, 4, 8])"),
      2048);
  EXPECT_EQ(
      WorkspaceOf(
          R"(  %a, %b = all_to_all(%x, %x) {from=2, to=1, axes=tp} : f32[16, 4@tp, 8], f32[16, 4@tp, 8]
  %r = all_gather(%a) {dim=1, axes=tp} : f32[16, 4, 8])"),
      4096);
}

TEST(Memory, SumsOf16BitsAreF32InAWorkspace) {
  auto bytes = [](std::string_view dtype) {
    Program program = Parse(fmt::format(R"(asyra 1 local
program @f(%x: {0}[10, 4], %i: i64[10]) -> ({0}[8, 4]) {{
  %y = segment_sum(%x, %i) {{dim=0, size=8}} : {0}[8, 4]
  return %y
}})",
                                        dtype));
    return WorkspaceBytes(program, TestMachine());
  };
  EXPECT_EQ(bytes("bf16"), 8 * 4 * 4);
  EXPECT_EQ(bytes("f32"), 0);
}

TEST(Memory, MatmulsHaveAWorkspaceForEachStream) {
  auto bytes = [](std::string_view stream) {
    Machine machine = TestMachine();
    machine.gpu.library_mib.workspace = 3;
    Program program = Parse(fmt::format(R"(asyra 1 scheduled
program @f(%x: f32[8, 8]) -> (f32[8, 8], f32[8, 8]) {{
  %a = matmul(%x, %x) on compute : f32[8, 8]
  %b = matmul(%x, %x) on {} : f32[8, 8]
  return %a, %b
}})",
                                        stream));
    return WorkspaceBytes(program, machine);
  };
  EXPECT_EQ(bytes("compute"), 3 << 20);
  EXPECT_EQ(bytes("other"), 6 << 20);
}

TEST(Memory, ReportGivesEveryAnswer) {
  Program program = Parse(R"(asyra 1 scheduled
mesh (tp=2)
program @f(%x: f32[500] partial(tp), %y: f32[100]) -> (f32[500], f32[100]) {
  %f = start all_reduce(%x) {axes=tp} on comm : future f32[500]
  %a = neg(%y) on compute : f32[100]
  %b = neg(%a) on compute : f32[100]
  %r = wait(%f) on compute : f32[500]
  return %r, %b
})");
  Machine machine = TestMachine();
  machine.gpu.library_mib = {.context = 3, .collectives = 7, .communicator = 2};
  SimResult result = Simulate(program, CostModel(machine, program.mesh));
  MemoryReport report = ReportMemory(program, result, machine);
  EXPECT_EQ(report.live_bytes, result.peak_bytes);
  EXPECT_EQ(report.live_bytes, 2000 + 400 + 2000 + 400 + 400);
  EXPECT_EQ(report.rounded_bytes, 2048 + 512 + 2048 + 512 + 512);
  EXPECT_EQ(report.arena_bytes, report.rounded_bytes);
  EXPECT_EQ(report.device_bytes, report.arena_bytes + (12 << 20));
  std::vector<std::string> names;
  for (const LiveBuffer& buffer :
       LiveBuffersAt(program, result.spans, report.peak_at_us)) {
    names.push_back(program.value_name(buffer.value));
  }
  EXPECT_THAT(names, testing::ElementsAre("x", "f", "y", "a", "b"));
  EXPECT_GT(report.peak_at_us, 0);
}

// %a is free when the collective begins, but only because it happens to be
// slow to start: nothing orders the two, so they do not share bytes.
TEST(Memory, ArenaSharesBytesOnlyWhereTheProgramOrdersThem) {
  Program program = Parse(R"(asyra 1 scheduled
mesh (tp=2)
program @f(%x: f32[500] partial(tp), %y: f32[500]) -> (f32[500], f32[500]) {
  %a = neg(%y) on one : f32[500]
  %b = neg(%a) on one : f32[500]
  %f = start all_reduce(%x) {axes=tp} on comm : future f32[500]
  %r = wait(%f) on one : f32[500]
  return %r, %b
})");
  Machine machine = TestMachine();
  std::vector<OpCost> op_costs =
      EstimateCosts(program, CostModel(machine, program.mesh));
  op_costs[2].launch_us = 100;
  SimResult result = Replay(program, op_costs);
  MemoryReport report = ReportMemory(program, result, machine);
  EXPECT_EQ(report.rounded_bytes, 4 * 2048);
  EXPECT_EQ(report.arena_bytes, 5 * 2048);
}

}  // namespace
}  // namespace asyra
