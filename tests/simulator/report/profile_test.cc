#include "simulator/report/profile.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "simulator/report/profile_diff.h"
#include "simulator/report/profile_json.h"
#include "simulator/report/trace.h"
#include "tests/simulator/replay/random_program.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

constexpr std::string_view kProgram = R"(asyra 1 scheduled
mesh (tp=2)
program @mlp(%x: f32[500] partial(tp), %y: f32[500],
    %w: f32[100] weight) -> (f32[500], f32[500], f32[100]) {
  %f = start all_reduce(%x) {axes=tp} on comm : future f32[500]
  %a = neg(%y) on compute : f32[500]
  %r = wait(%f) on compute : f32[500]
  %b = neg(%r) on compute : f32[500]
  %c = neg(%w) on compute : f32[100]
  return %a, %b, %c
})";

struct Simulated {
  Program program;
  SimResult result;
  Profile profile;
};

Simulated SimulateText(std::string_view text) {
  Simulated simulated{Parse(text)};
  CostModel costs(TestMachine(), simulated.program.mesh);
  simulated.result = Simulate(simulated.program, costs);
  simulated.profile =
      MakeProfile(simulated.program, simulated.result, costs, {.model = "mlp"});
  return simulated;
}

TEST(Profile, SaysWhatEachOpIsAndWhatWaitsForIt) {
  Profile profile = SimulateText(kProgram).profile;
  ASSERT_EQ(profile.ops.size(), 4u);
  EXPECT_EQ(profile.streams, (std::vector<std::string>{"comm", "compute"}));
  const ProfileOp& reduce = profile.ops[0];
  EXPECT_EQ(reduce.name, "f");
  EXPECT_EQ(reduce.axes, "tp");
  EXPECT_EQ(reduce.bytes, 2000);
  EXPECT_EQ(reduce.wait, 2);
  EXPECT_TRUE(reduce.critical);
  EXPECT_FALSE(profile.ops[1].critical);
  EXPECT_EQ(profile.ops[2].waited_for, "data");
  EXPECT_EQ(profile.machine, "test");
  EXPECT_EQ(profile.mesh, "(tp=2)");
}

TEST(Profile, SharesOfTheMakespanAddUpToIt) {
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Profile profile = SimulateText(RandomProgram(seed, 60, 2).text()).profile;
    double sum = 0;
    for (const ProfileShare& share : profile.sources) sum += share.us;
    EXPECT_NEAR(sum, profile.makespan_us, 1e-6 * profile.makespan_us);
  }
}

TEST(Profile, WhatIsAliveAtThePeakAddsUpToIt) {
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Profile profile = SimulateText(RandomProgram(seed, 60, 2).text()).profile;
    int64_t sum = 0;
    for (const ProfileBuffer& buffer : profile.at_peak) sum += buffer.bytes;
    EXPECT_EQ(sum, profile.peak_bytes);
  }
}

TEST(Profile, TotalsFollowFromTheOps) {
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Profile profile = SimulateText(RandomProgram(seed, 60, 2).text()).profile;
    Profile summed = profile;
    SumUp(&summed);
    EXPECT_NEAR(summed.makespan_us, profile.makespan_us, 1e-6);
    EXPECT_NEAR(summed.compute_us, profile.compute_us, 1e-6);
    EXPECT_NEAR(summed.comm_us, profile.comm_us, 1e-6);
    EXPECT_NEAR(summed.exposed_comm_us, profile.exposed_comm_us, 1e-6);
    EXPECT_NEAR(summed.bubble, profile.bubble, 1e-9);
    EXPECT_EQ(summed.collectives, profile.collectives);
  }
}

// A kernel that communicates counts as computation, and says over what.
TEST(Profile, NamesTheAxesOfKernelsThatCommunicate) {
  Profile profile = SimulateText(R"(asyra 1 local
mesh (tp=2)
program @f(%x: f32[6, 4@tp], %y: f32[4@tp, 8]) -> (f32[6, 8]) {
  %p = matmul(%x, %y) : f32[6, 8] partial(tp)
  %n = overlap(%p) {
    %1 = all_reduce(%0) {axes=tp} : f32[6, 8]
    %2 = neg(%1) : f32[6, 8]
    return %2
  } {form=one_kernel} : f32[6, 8]
  return %n
})")
                        .profile;
  ASSERT_EQ(profile.ops.size(), 2u);
  EXPECT_EQ(profile.ops[0].kernel_axes, "");
  EXPECT_EQ(profile.ops[1].kernel_axes, "tp");
  EXPECT_EQ(profile.collectives, 0);
  Profile read = ASYRA_VALUE(ReadProfile(ProfileJson(profile), "test"));
  EXPECT_EQ(read.ops[1].kernel_axes, "tp");
}

// 2 * 64 * 128 * 256 flop on two devices of 100 TFLOP/s.
TEST(Profile, MfuCountsTheModelOnceHoweverItIsSharded) {
  for (std::string_view text : {R"(asyra 1 local
mesh (tp=2)
program @f(%x: bf16[64, 128], %w: bf16[128, 256@tp]) -> (bf16[64, 256@tp]) {
  %y = matmul(%x, %w) : bf16[64, 256@tp]
  return %y
})",
                                R"(asyra 1 local
mesh (tp=2)
program @f(%x: bf16[64, 128], %w: bf16[128, 256]) -> (bf16[64, 256]) {
  %y = matmul(%x, %w) : bf16[64, 256]
  return %y
})"}) {
    EXPECT_NEAR(ModelFlopUtilization(Parse(text), TestMachine(), 100),
                2.0 * 64 * 128 * 256 / (2 * 100e6 * 100), 1e-12);
  }
}

// Rows in stripes see the keys of one device after those of the other.
TEST(Profile, MfuCountsAttentionOnceHoweverItsKeysCome) {
  double whole = ModelFlopUtilization(Parse(R"(asyra 1 local
mesh (sp=2)
program @f(%q: bf16[1, 64, 2, 8], %k: bf16[1, 64, 2, 8]) -> (bf16[1, 64, 2, 8]) {
  %y = attention(%q, %k, %k) {causal=true, scale=0.5} : bf16[1, 64, 2, 8]
  return %y
})"),
                                      TestMachine(), 100);
  double walked = ModelFlopUtilization(Parse(R"(asyra 1 local
mesh (sp=2)
program @f(%a: bf16[1, 32@sp, 2, 8], %b: bf16[1, 32@sp, 2, 8], %k: bf16[1, 64@sp, 2, 8], %l: bf16[1, 64@sp, 2, 8]) -> (bf16[1, 32@sp, 2, 8], bf16[1, 32@sp, 2, 8], bf16[1, 32@sp, 2, 8], bf16[1, 32@sp, 2, 8]) {
  %y = attention(%a, %k, %k) {causal=true, runs=2, shards=2, scale=0.5} : bf16[1, 32@sp, 2, 8]
  %z = attention(%b, %k, %k) {causal=true, offset=32, runs=-2, shards=2, scale=0.5} : bf16[1, 32@sp, 2, 8]
  %u = attention(%a, %l, %l) {causal=true, runs=2, shards=2, shift=1, scale=0.5} : bf16[1, 32@sp, 2, 8]
  %v = attention(%b, %l, %l) {causal=true, offset=32, runs=-2, shards=2, shift=1, scale=0.5} : bf16[1, 32@sp, 2, 8]
  return %y, %z, %u, %v
})"),
                                       TestMachine(), 100);
  EXPECT_NEAR(walked, whole, 1e-9 * whole);
}

// The kernels compute it: a program with padding takes as long, and is worth
// less.
TEST(Profile, PaddingTakesTimeAndIsNoUse) {
  auto simulated = [](std::string_view occupancy) {
    return SimulateText(fmt::format(R"(asyra 1 local
program @f(%x: bf16[4, 64, 128], %w: bf16[4, 128, 256]) -> (bf16[4, 64, 256]) {{
  %y = grouped_matmul(%x, %w) {{occupancy={}}} : bf16[4, 64, 256]
  return %y
}})",
                                    occupancy))
        .profile;
  };
  Profile full = simulated("1.0"), half = simulated("0.5");
  EXPECT_GT(full.makespan_us, 0);
  EXPECT_EQ(half.makespan_us, full.makespan_us);
  EXPECT_DOUBLE_EQ(half.mfu, full.mfu / 2);
}

TEST(ProfileJson, ReadsWhatItWrites) {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    Profile profile = SimulateText(RandomProgram(seed, 60, 2).text()).profile;
    std::string json = ProfileJson(profile);
    absl::StatusOr<Profile> read = ReadProfile(json, "a.json");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(ProfileJson(*read), json);
    EXPECT_EQ(read->ops.size(), profile.ops.size());
    EXPECT_EQ(read->makespan_us, profile.makespan_us);
  }
}

TEST(ProfileJson, HasPowerWhereItIsKnown) {
  Profile profile;
  EXPECT_FALSE(Json::parse(ProfileJson(profile)).contains("power"));
  profile.clock_mhz = 1500;
  profile.most_mhz = 1980;
  profile.watts = 640;
  profile.makespan_us = 1e6;
  profile.devices = 2;
  profile.step = {.batch = 4, .tokens = {16}, .dtype = "bf16"};
  std::string text = ProfileJson(profile);
  EXPECT_EQ(Json::parse(text)["power"]["joules_per_token"], 20);
  Profile read = ASYRA_VALUE(ReadProfile(text, "a.json"));
  EXPECT_EQ(read.clock_mhz, 1500);
  EXPECT_EQ(read.most_mhz, 1980);
  EXPECT_EQ(read.watts, 640);
  EXPECT_EQ(ProfileJson(read), text);
}

TEST(ProfileJson, SaysWhatTheStepIsWhereThatIsKnown) {
  Profile profile = SimulateText(kProgram).profile;
  Json json = Json::parse(ProfileJson(profile));
  EXPECT_FALSE(json.contains("step"));
  EXPECT_FALSE(json.contains("tokens_per_s"));
  profile.step = {4, {64, 32}, "bf16"};
  profile.makespan_us = 1000;
  json = Json::parse(ProfileJson(profile));
  EXPECT_EQ(json["tokens_per_s"], 4 * 64 * 1000.0);
  auto read = ReadProfile(json.dump(), "a.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->step, profile.step);
  EXPECT_FALSE(json.contains("noise"));
  profile.noise = 0.02;
  EXPECT_EQ(ReadProfile(ProfileJson(profile), "a.json")->noise, 0.02);
  for (const char* key : {"batch", "tokens", "dtype"}) {
    Json less = json;
    less["step"].erase(key);
    EXPECT_THAT(
        std::string(ReadProfile(less.dump(), "a.json").status().message()),
        HasSubstr("step." + std::string(key) + " is missing"));
  }
  json["step"]["tokens"][1] = "many";
  EXPECT_EQ(ReadProfile(json.dump(), "a.json").status().message(),
            "a.json: step.tokens[] is no integer");
}

TEST(ProfileJson, ATraceIsTheSameProfile) {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    Simulated simulated = SimulateText(RandomProgram(seed, 60, 2).text());
    const Profile& profile = simulated.profile;
    absl::StatusOr<Profile> read = ReadProfile(
        WriteChromeTrace(simulated.program, simulated.result, TestMachine()),
        "a.json");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->ops.size(), profile.ops.size());
    EXPECT_NEAR(read->compute_us, profile.compute_us, 1e-2);
    EXPECT_NEAR(read->comm_us, profile.comm_us, 1e-2);
    EXPECT_NEAR(read->exposed_comm_us, profile.exposed_comm_us, 1e-2);
    EXPECT_EQ(read->peak_bytes, profile.peak_bytes);
    EXPECT_EQ(read->collectives, profile.collectives);
    EXPECT_EQ(read->devices, profile.devices);
    for (const OpDifference& op : Differences(profile, *read)) {
      EXPECT_EQ(op.before_count, op.after_count) << op.name;
      EXPECT_NEAR(op.change_us(), 0, 2e-3) << op.name;
    }
  }
}

TEST(ProfileJson, TakesTheFirstDeviceOfAProfilersTrace) {
  absl::StatusOr<Profile> read = ReadProfile(R"json({"traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 1, "tid": 7,
     "ts": 5, "dur": 5},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7,
     "ts": 100.5, "dur": 10},
    {"ph": "X", "cat": "kernel", "pid": 0, "tid": 20, "ts": 105, "dur": 10,
     "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)"},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9,
     "ts": 1, "dur": 1}, 3, {"ph": 4}]})json",
                                             "torch.json");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->ops.size(), 2u);
  EXPECT_EQ(read->streams, (std::vector<std::string>{"stream 7", "stream 20"}));
  EXPECT_TRUE(read->ops[1].is_collective());
  EXPECT_DOUBLE_EQ(read->makespan_us, 14.5);
  EXPECT_DOUBLE_EQ(read->exposed_comm_us, 4.5);
}

struct BadJson {
  std::string_view text, message;
};

TEST(ProfileJson, ErrorsNameTheFileAndTheKey) {
  const BadJson cases[] = {
      {"{", "a.json: line 1 is no JSON"},
      {"[]", "a.json: neither a profile"},
      {R"({"traceEvents": 3})", "a.json: traceEvents is no list"},
      {R"({"traceEvents": []})", "a.json: the trace has no kernel"},
      {R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k"}]})",
       "a.json: kernel 'k': ts is no number"},
      {R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k",
                            "ts": 1, "dur": -2}]})",
       "a.json: kernel 'k': dur is -2"},
      {R"({"format": "asyra-profile"})", "a.json: version is missing"},
      {R"({"format": "asyra-profile", "version": 7})",
       "a.json: version is 7, this program reads 1"},
  };
  for (const BadJson& bad : cases) {
    absl::StatusOr<Profile> read = ReadProfile(bad.text, "a.json");
    ASSERT_FALSE(read.ok()) << bad.text;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(bad.message));
  }
}

// Every key of the schema is read, so that what lacks one is refused.
TEST(ProfileJson, EveryKeyIsRequiredAndTyped) {
  Json whole = Json::parse(ProfileJson(SimulateText(kProgram).profile));
  for (const auto& [key, value] : whole.items()) {
    Json less = whole;
    less.erase(key);
    absl::StatusOr<Profile> read = ReadProfile(less.dump(), "a.json");
    EXPECT_FALSE(read.ok()) << key;
    Json other = whole;
    other[key] = Json::object({{"no", "such"}});
    EXPECT_FALSE(ReadProfile(other.dump(), "a.json").ok()) << key;
  }
  for (const char* key : {"name", "op", "start_us", "end_us", "critical"}) {
    Json less = whole;
    less["ops"][1].erase(key);
    EXPECT_THAT(
        std::string(ReadProfile(less.dump(), "a.json").status().message()),
        HasSubstr("ops[1]." + std::string(key) + " is missing"));
  }
  Json stream = whole;
  stream["ops"][0]["stream"] = 7;
  EXPECT_FALSE(ReadProfile(stream.dump(), "a.json").ok());
  Json wait = whole;
  wait["ops"][0]["wait"] = 7;
  EXPECT_FALSE(ReadProfile(wait.dump(), "a.json").ok());
  Json ends = whole;
  ends["ops"][0]["end_us"] = -1;
  EXPECT_THAT(
      std::string(ReadProfile(ends.dump(), "a.json").status().message()),
      HasSubstr("ops[0].end_us is before start_us"));
}

Profile OfOps(const std::vector<ProfileOp>& ops) {
  Profile profile;
  profile.streams = {"compute"};
  profile.ops = ops;
  SumUp(&profile);
  return profile;
}

TEST(ProfileDiff, TilesOfAnOpAreCompared) {
  Profile before = OfOps(
      {{.name = "layer0.q", .op = "matmul", .end_us = 10, .critical = true},
       {.name = "t0.k", .op = "add", .start_us = 10, .end_us = 11}});
  Profile after = OfOps({{.name = "layer0.q.t0", .op = "matmul", .end_us = 4},
                         {.name = "layer0.q.t1.future",
                          .op = "matmul",
                          .start_us = 4,
                          .end_us = 8},
                         {.name = "t0.k",
                          .op = "add",
                          .start_us = 8,
                          .end_us = 11,
                          .critical = true}});
  std::vector<OpDifference> ops = Differences(before, after);
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(ops[0].name, "layer0.q");
  EXPECT_EQ(ops[0].before_count, 1);
  EXPECT_EQ(ops[0].after_count, 2);
  EXPECT_DOUBLE_EQ(ops[0].change_us(), -2);
  EXPECT_TRUE(ops[0].left_critical());
  EXPECT_EQ(ops[1].name, "t0.k");
  EXPECT_TRUE(ops[1].joined_critical());
  std::string text = DifferenceReport(before, after);
  EXPECT_THAT(text, HasSubstr("layer*.q (matmul)"));
  EXPECT_THAT(text, HasSubstr("1 -> 2 ops"));
  EXPECT_THAT(text, HasSubstr("1 op left the critical path"));
  EXPECT_THAT(text, HasSubstr("1 op joined it"));
}

TEST(ProfileDiff, ComparesWhatIsExposedOverEachAxis) {
  ProfileOp op{.name = "r", .op = "all_reduce", .end_us = 10};
  op.axes = "tp";
  Profile before = OfOps({op});
  op.axes = "sp";
  op.end_us = 4;
  std::string text = DifferenceReport(before, OfOps({op}));
  EXPECT_THAT(text, testing::ContainsRegex("  over tp +10\\.0 us +0\\.0 us"));
  EXPECT_THAT(text, testing::ContainsRegex("  over sp +0\\.0 us +4\\.0 us"));
}

TEST(ProfileDiff, LessThanTheNoiseIsATie) {
  EXPECT_TRUE(IsTie(100, 0, 100, 0));
  EXPECT_FALSE(IsTie(100, 0, 100.1, 0));
  EXPECT_TRUE(IsTie(100, 0.001, 100.9, 0.01));
  EXPECT_FALSE(IsTie(100, 0.001, 101.1, 0.01));
  Profile before = OfOps({{.name = "a", .op = "add", .end_us = 100}});
  Profile after = OfOps({{.name = "a", .op = "add", .end_us = 100.9}});
  EXPECT_THAT(DifferenceReport(before, after), testing::Not(HasSubstr("~")));
  EXPECT_EQ(Json::parse(DifferenceJson(before, after))["tie"], false);
  before.noise = 0.01;
  EXPECT_THAT(
      DifferenceReport(before, after),
      testing::AllOf(
          testing::ContainsRegex("makespan .* \\+0\\.9 % ~\n"),
          HasSubstr("\n~ a tie: less than the noise of the search, 1.0 %\n")));
  EXPECT_EQ(Json::parse(DifferenceJson(before, after))["tie"], true);
}

TEST(ProfileDiff, SaysWhenThereIsNoCriticalPath) {
  Profile one = OfOps({{.name = "a", .op = "add", .end_us = 10}});
  one.model = "measured.json";
  EXPECT_THAT(DifferenceReport(one, one),
              HasSubstr("critical path of before (measured.json) is not"));
}

}  // namespace
}  // namespace asyra
