// What asyra-bench is made of, on cpus.
#include <gmock/gmock.h>

#include <mutex>

#include "executor/bench/collective_timer.h"
#include "executor/bench/kernel_timer.h"
#include "executor/bench/program_calls.h"
#include "executor/bench/timing.h"
#include "executor/cpu/cpu_device.h"
#include "executor/cpu/run_on_cpu.h"
#include "ir/parser.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

TEST(Timing, IsTheMedianAndTheMiddleHalf) {
  Timing odd = TimingOf({5, 1, 100, 3, 4});
  EXPECT_EQ(odd.us, 4);
  EXPECT_EQ(odd.spread, (5 - 3) / 4.0);
  EXPECT_EQ(odd.samples, 5);
  EXPECT_EQ(TimingOf({2, 4}).us, 3);
  EXPECT_EQ(TimingOf({7}).spread, 0);
}

constexpr std::string_view kProgram = R"(
asyra 1 local
mesh (dp=2, tp=4)
program @mlp(%x: f32[8@dp, 16], %up: f32[16, 64@tp] weight,
    %down: f32[64@tp, 16] weight) -> (f32[32@dp, 4]) {
  %h = matmul(%x, %up) : f32[8@dp, 64@tp]
  %p = matmul(%h, %down) : f32[8@dp, 16] partial(tp)
  %y = all_reduce(%p) {axes=tp} : f32[8@dp, 16]
  %q = matmul(%h, %down) : f32[8@dp, 16] partial(tp)
  %z = all_reduce(%q) {axes=tp} : f32[8@dp, 16]
  %s = add(%y, %z) : f32[8@dp, 16]
  %r = reshape(%s) {shape=[32, 4]} : f32[32@dp, 4]
  return %r
}
)";

TEST(ProgramCalls, AreLocalAndEachOnce) {
  Program program = ASYRA_VALUE(ParseProgram(kProgram));
  ProgramCalls calls;
  AddCalls(program, 4, &calls);
  AddCalls(program, 4, &calls);
  EXPECT_THAT(
      calls.local,
      ElementsAre(Field(&LocalCall::text, "matmul(f32[4, 16], f32[16, 16])"),
                  Field(&LocalCall::text, "add(f32[4, 16], f32[4, 16])")))
      << "both matmuls have these sizes, reshape is a view";
  EXPECT_EQ(calls.local[0].count, 6);
  EXPECT_EQ(calls.local[1].count, 2);
  EXPECT_THAT(calls.collectives,
              ElementsAre(CollectiveCall{
                  "all_reduce(f32[64] partial(x)) {axes=x}", 4}));
  EXPECT_THAT(calls.left_out, testing::IsEmpty());
}

// Rows of attention that devices share are where costs take them to be: the
// last ones, or the mean run.
TEST(ProgramCalls, HaveRowsWhereTheyAreCosted) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 local
mesh (sp=4)
program @f(%q: f32[1, 32@sp, 1, 4], %half: f32[1, 16@sp, 1, 4],
    %k: f32[1, 32, 1, 4]) -> (f32[1, 32@sp, 1, 4], f32[1, 16@sp, 1, 4],
    f32[1, 16@sp, 1, 4]) {
  %a = attention(%q, %k, %k) {causal=true, scale=1.0} : f32[1, 32@sp, 1, 4]
  %b = attention(%half, %k, %k) {causal=true, runs=4, scale=1.0} : f32[1, 16@sp, 1, 4]
  %c = attention(%half, %k, %k) {causal=true, offset=16, runs=-4, scale=1.0} : f32[1, 16@sp, 1, 4]
  return %a, %b, %c
}
)"));
  ProgramCalls calls;
  AddCalls(program, 4, &calls);
  std::vector<std::string> attrs;
  for (size_t i = 0; i < calls.local.size(); ++i) {
    const std::string& text = calls.local[i].text;
    attrs.push_back(text.substr(text.find('{')));
    const KernelUse& use = calls.local[i].use;
    OpUse op(program, program.ops[i]);
    EXPECT_EQ(WorkOf({use.def(), use.attrs(), use.global_operands(),
                      use.global_results()},
                     Mesh())
                  .flops,
              WorkOf(op, program.mesh).flops)
        << text;
  }
  EXPECT_THAT(attrs,
              ElementsAre("{causal=true, offset=24, runs=-1, scale=1.0}",
                          "{causal=true, offset=6, runs=-1, scale=1.0}",
                          "{causal=true, offset=22, runs=-1, scale=1.0}"));
}

// Tables have computation on the whole device.
TEST(ProgramCalls, LeaveOutTheSmMargin) {
  ProgramCalls calls;
  AddCalls(ASYRA_VALUE(ParseProgram(R"(asyra 1 scheduled
program @f(%x: f32[8, 16], %w: f32[16, 16] weight) -> (f32[8, 16]) {
  %a = matmul(%x, %w) {sm_margin=8} on compute : f32[8, 16]
  %b = matmul(%a, %w) on compute : f32[8, 16]
  return %b
}
)")),
           4, &calls);
  EXPECT_THAT(
      calls.local,
      ElementsAre(Field(&LocalCall::text, "matmul(f32[8, 16], f32[16, 16])")));
}

TEST(ProgramCalls, OfCollectivesCarryTheirPayload) {
  for (CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
        CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll}) {
    for (const char* more : {"", "transport=copy_engine", "ctas=4"}) {
      CollectiveCall call = CollectiveOf(kind, DType::kBF16, 4096, 4, more);
      auto payload = PayloadOf(call);
      ASSERT_TRUE(payload.ok()) << payload.status();
      EXPECT_EQ(*payload, 4096) << call.text;
      EXPECT_THAT(call.text, HasSubstr(more));
    }
  }
}

TEST(ProgramCalls, ByCopyEnginesAreCallsOfTheirOwn) {
  std::string text(kProgram);
  std::string_view first = "all_reduce(%p) {axes=tp";
  text.insert(text.find(first) + first.size(), ", transport=copy_engine");
  ProgramCalls calls;
  AddCalls(ASYRA_VALUE(ParseProgram(text)), 4, &calls);
  EXPECT_THAT(
      calls.collectives,
      ElementsAre(
          CollectiveCall{
              "all_reduce(f32[64] partial(x)) {axes=x, transport=copy_engine}",
              4},
          CollectiveCall{"all_reduce(f32[64] partial(x)) {axes=x}", 4}));
}

// In each shape, over the ranks of its axes alone; and what a rank's pieces
// compute.
TEST(ProgramCalls, OfOverlapsAreThoseOfTheirGroups) {
  ProgramCalls calls;
  AddCalls(ASYRA_VALUE(ParseProgram(R"(asyra 1 scheduled
mesh (dp=2, tp=4)
program @f(%x: f32[8@dp, 16, 32@tp], %w: f32[32@tp, 16] weight)
    -> (f32[8@dp, 16@tp, 16], f32[8@dp, 16@tp, 16]) {
  %y = overlap(%x, %w) {
    %2 = matmul(%0, %1) : f32[8@dp, 16, 16] partial(tp)
    %3 = reduce_scatter(%2) {dim=1, axes=tp} : f32[8@dp, 16@tp, 16]
    return %3
  } {order=own_last, parts=2} on compute : f32[8@dp, 16@tp, 16]
  %z = overlap(%x, %w) {
    %2 = matmul(%0, %1) : f32[8@dp, 16, 16] partial(tp)
    %3 = reduce_scatter(%2) {dim=1, axes=tp} : f32[8@dp, 16@tp, 16]
    return %3
  } {order=own_last, parts=2, sums_in_pieces=true} on compute : f32[8@dp, 16@tp, 16]
  return %y, %z
}
)")),
           4, &calls);
  std::string body =
      "overlap(f32[4, 16, 32@x], f32[32@x, 16]) {%2 = matmul(%0, %1) : "
      "f32[4, 16, 16] partial(x); %3 = reduce_scatter(%2) {dim=1, axes=x} : "
      "f32[4, 16@x, 16]; return %3} {order=own_last, parts=2";
  EXPECT_THAT(calls.collectives,
              ElementsAre(CollectiveCall{body + "}", 4},
                          CollectiveCall{body + ", sums_in_pieces=true}", 4}));
  // Of 4 shards of 2 parts, all but one without a sum in the second op.
  ASSERT_EQ(calls.local.size(), 2);
  EXPECT_EQ(calls.local[0].text, "matmul(f32[4, 2, 8], f32[8, 16])");
  EXPECT_EQ(calls.local[0].count, 8 + 6);
  EXPECT_THAT(calls.local[1].text,
              HasSubstr("fusion(f32[4, 2, 8], f32[8, 16], f32[4, 2, 16])"));
  EXPECT_EQ(calls.local[1].count, 2);
  EXPECT_THAT(calls.left_out, testing::IsEmpty());
}

TEST(ProgramCalls, AreWrittenInOneWay) {
  auto call = ParseLocalCall("softmax( f32[4,8] )");
  auto same = ParseLocalCall("softmax(f32[4, 8])");
  ASSERT_TRUE(call.ok() && same.ok()) << call.status() << same.status();
  EXPECT_EQ(call->text, same->text);
}

TEST(ProgramCalls, RefuseWhatTheOpDoes) {
  auto call = ParseLocalCall("matmul(f32[4,8], f32[4,8])");
  EXPECT_THAT(
      call.status().message(),
      HasSubstr("contracting sizes differ: lhs dim 1 is 8, rhs dim 0 is 4"));
}

TEST(KernelTimer, TakesAsManySamplesAsItIsAskedFor) {
  auto device = CreateCpuDevice({.threads_per_stream = 1});
  LocalCall call =
      ASYRA_VALUE(ParseLocalCall("matmul(f32[32,32], f32[32,32])"));
  Timing timing = ASYRA_VALUE(TimeKernel(*device, call.use, {.samples = 3}));
  EXPECT_EQ(timing.samples, 3);
  EXPECT_GT(timing.us, 0);
}

TEST(KernelTimer, RefusesReferences) {
  auto device = CreateCpuDevice({.threads_per_stream = 1});
  LocalCall call = ASYRA_VALUE(ParseLocalCall(
      "attention(f64[1,2,1,2], f64[1,2,1,2], f64[1,2,1,2]) {scale=1.0}"));
  auto timing = TimeKernel(*device, call.use);
  EXPECT_TRUE(absl::IsUnimplemented(timing.status())) << timing.status();
}

TEST(MixTimer, TimesEachCallAndLeavesOutReferences) {
  auto device = CreateCpuDevice({.threads_per_stream = 1});
  std::vector<MixCall> calls;
  for (std::string_view text :
       {"matmul(f32[32,32], f32[32,32])",
        "attention(f64[1,2,1,2], f64[1,2,1,2], f64[1,2,1,2]) {scale=1.0}",
        "neg(f32[1000000])"}) {
    calls.push_back({ASYRA_VALUE(ParseLocalCall(text)).use, 2});
  }
  auto timings =
      ASYRA_VALUE(TimeMix(*device, calls, {.warmup_s = 0.01, .samples = 3}));
  ASSERT_EQ(timings.size(), 3);
  EXPECT_TRUE(absl::IsUnimplemented(timings[1].status()))
      << timings[1].status();
  ASSERT_TRUE(timings[0].ok() && timings[2].ok());
  EXPECT_EQ(timings[0]->samples, 3);
  EXPECT_GT(timings[0]->us, 0);
  EXPECT_GT(timings[2]->us, 0);
  EXPECT_TRUE(ASYRA_VALUE(TimeMix(*device, {})).empty());
}

TEST(KernelTimer, CountsTheHostsTimeToo) {
  auto device = CreateCpuDevice({.threads_per_stream = 1});
  LocalCall call = ASYRA_VALUE(ParseLocalCall("neg(f32[16])"));
  LaunchTimes times = ASYRA_VALUE(TimeLaunches(*device, call.use));
  EXPECT_GT(times.eager_us, 0);
  EXPECT_GT(times.recorded_us, 0);
  EXPECT_GT(times.device_us, 0);
}

TEST(RankTimers, AgreeOnTheSlowestRank) {
  auto platform = CreateCpuPlatform();
  std::mutex mutex;
  std::vector<double> seen, pairs;
  absl::Status status =
      RunRankTimers(*platform, 4, 60, [&](RankTimer& timer) -> absl::Status {
        for (int ranks : {2, 4}) {
          CollectiveCall call = CollectiveOf(CollectiveKind::kAllReduce,
                                             DType::kF32, 4096, ranks);
          auto timing = timer.TimeCollective(call, 3);
          if (!timing.ok()) return timing.status();
          std::lock_guard lock(mutex);
          seen.push_back(timing->us);
        }
        PairCall pair = {
            ASYRA_VALUE(ParseLocalCall("matmul(f32[64,64], f32[64,64])")),
            CollectiveOf(CollectiveKind::kAllGather, DType::kF32, 65536, 4),
            CollectiveKind::kAllGather};
        auto timing = timer.TimePair(pair, 3);
        if (!timing.ok()) return timing.status();
        std::lock_guard lock(mutex);
        pairs.push_back(timing->collective_beside_us);
        EXPECT_GT(timing->compute_beside_us, 0);
        return absl::OkStatus();
      });
  ASSERT_TRUE(status.ok()) << status;
  std::sort(seen.begin(), seen.end());
  ASSERT_EQ(seen.size(), 8);
  EXPECT_EQ(seen[0], seen[3]);
  EXPECT_EQ(seen[4], seen[7]);
  EXPECT_EQ(pairs, std::vector<double>(4, pairs[0]));
}

// Loads run to their end before a device is found not to tell.
TEST(RankTimers, SayWhereADeviceDoesNotTellItsPower) {
  auto platform = CreateCpuPlatform();
  for (int ranks : {1, 2}) {
    absl::Status status = RunRankTimers(
        *platform, ranks, 60, [&](RankTimer& timer) -> absl::Status {
          std::string gather =
              CollectiveOf(CollectiveKind::kAllGather, DType::kF32, 4096, 2)
                  .text;
          for (const std::string& text :
               {std::string(), std::string("neg(f32[64])"), gather}) {
            if (text == gather && ranks == 1) continue;
            Load load{text, 0.5, /*settle_s=*/0.01, /*measure_s=*/0.01};
            EXPECT_THAT(timer.PowerOf(load).status().ToString(),
                        HasSubstr("does not tell its clock and power"))
                << text;
          }
          EXPECT_THAT(timer.PowerOf({"neg(f32[64)"}).status().ToString(),
                      HasSubstr("expected ']'"));
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
  }
}

// The cpu does not tell what memory is in use.
TEST(RankTimers, CarryWhatTakesMemoryBeforeAnythingIsTimed) {
  auto platform = CreateCpuPlatform();
  absl::Status status =
      RunRankTimers(*platform, 2, 60, [&](RankTimer& timer) -> absl::Status {
        CollectiveCall call =
            CollectiveOf(CollectiveKind::kAllGather, DType::kF32, 4096, 2);
        EXPECT_EQ(ASYRA_VALUE(timer.BytesToCarry(call)), 0);
        call.ranks = 3;
        EXPECT_THAT(timer.BytesToCarry(call).status().message(),
                    HasSubstr("no groups of 3"));
        call.ranks = 2;
        return timer.TimeCollective(call, 3).status();
      });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(RankTimers, SayWhereNoCopyEngineCarriesIt) {
  auto platform = CreateCpuPlatform();
  absl::Status status =
      RunRankTimers(*platform, 2, 60, [&](RankTimer& timer) -> absl::Status {
        auto timing = timer.TimeCollective(
            CollectiveOf(CollectiveKind::kAllGather, DType::kF32, 4096, 2,
                         "transport=copy_engine"),
            3);
        EXPECT_TRUE(absl::IsUnimplemented(timing.status())) << timing.status();
        EXPECT_THAT(timing.status().message(),
                    HasSubstr("the devices have no copy engines"));
        // And go on.
        return timer
            .TimeCollective(
                CollectiveOf(CollectiveKind::kAllGather, DType::kF32, 4096, 2),
                3)
            .status();
      });
  EXPECT_TRUE(status.ok()) << status;
}

// Calls of both streams and a plan, each after the one before.
TEST(RankTimers, TimeSequencesOfCalls) {
  auto platform = CreateCpuPlatform();
  const std::string matmul = "matmul(f32[256,256], f32[256,256])",
                    gather = "all_gather(f32[256@x,256]) {dim=0, axes=x}",
                    overlap =
                        "overlap(f32[256@x,256], f32[256,512@x]) {"
                        "%2 = all_gather(%0) {dim=0, axes=x} : f32[256,256] "
                        "%3 = matmul(%2, %1) : f32[256,512@x] return %3} "
                        "{parts=2}";
  absl::Status status =
      RunRankTimers(*platform, 2, 60, [&](RankTimer& timer) -> absl::Status {
        auto us = [&](const std::vector<SequenceCall>& calls) {
          Timing timing = ASYRA_VALUE(timer.TimeSequence(calls, 5));
          EXPECT_EQ(timing.samples, 5);
          return timing.us;
        };
        // 17 million products in a microsecond are no cpu's.
        EXPECT_GT(us({{matmul, {}}}), 1);
        EXPECT_GT(us({{gather, {}}, {matmul, {0}}, {matmul, {}}, {matmul, {}}}),
                  3);
        EXPECT_GT(us({{overlap, {}}}), 1);
        std::vector<SequenceCall> copied = {
            {"all_gather(f32[256@x,256]) {dim=0, axes=x, "
             "transport=copy_engine}",
             {}}};
        EXPECT_THAT(timer.TimeSequence(copied, 5).status().message(),
                    HasSubstr("the devices have no copy engines"));
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

// As programs have them: a plan, over groups of neighbours, on queues of its
// own.
TEST(RankTimers, TimePlansOfGroups) {
  auto platform = CreateCpuPlatform();
  CollectiveCall overlap{
      "overlap(f32[64,64@x], f32[64@x,64]) {"
      "%2 = matmul(%0, %1) : f32[64,64] partial(x) "
      "%3 = reduce_scatter(%2) {dim=0, axes=x} : f32[64@x,64] return %3} "
      "{order=own_last, parts=2, sums_in_pieces=true}",
      2};
  absl::Status status =
      RunRankTimers(*platform, 4, 60, [&](RankTimer& timer) -> absl::Status {
        Timing timing = ASYRA_VALUE(timer.TimeCollective(overlap, 3));
        EXPECT_EQ(timing.samples, 3);
        EXPECT_GT(timing.us, 0);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

// Joined at both ends, as steps are: what is at `from` comes to `to`.
struct TwoStreams {
  explicit TwoStreams(Device& on) : device(on) {
    first = ASYRA_VALUE(
        device.CreateStream("compute", StreamUse::kCompute, &failure));
    second = ASYRA_VALUE(
        device.CreateStream("x", StreamUse::kCollectives, &failure));
  }
  std::unique_ptr<Recording> Record(const float* from, float* to) {
    Event& begun = *events.emplace_back(device.CreateEvent(false));
    Event& done = *events.emplace_back(device.CreateEvent(false));
    Stream* streams[] = {first.get(), second.get()};
    return ASYRA_VALUE(device.Record(streams, [&, from, to] {
      device.Copy(&between, from, sizeof(float), *first);
      first->Record(begun);
      second->Wait(begun);
      device.Copy(to, &between, sizeof(float), *second);
      second->Record(done);
      first->Wait(done);
    }));
  }

  Device& device;
  Failure failure;
  float between = 0;
  std::vector<std::unique_ptr<Event>> events;
  std::unique_ptr<Stream> first, second;
};

TEST(Recordings, OfOneStreamAreTheirOwn) {
  auto device = CreateCpuDevice({.threads_per_stream = 1});
  float one = 1, two = 2, to = 0;
  TwoStreams streams(*device);
  auto ones = streams.Record(&one, &to), twos = streams.Record(&two, &to);
  for (int i = 0; i < 4; ++i) {
    // Not equally often, as each counts its own replays.
    for (int replays = i % 3; replays >= 0; --replays) ones->Replay();
    ASSERT_TRUE(streams.first->Synchronize().ok());
    EXPECT_EQ(to, 1);
    twos->Replay();
    ASSERT_TRUE(streams.first->Synchronize().ok());
    EXPECT_EQ(to, 2);
  }
  // What was replayed still runs.
  ones->Replay();
  ones = nullptr;
  EXPECT_EQ(to, 1);
}

TEST(RankTimers, RefuseGroupsThatDoNotDivideTheRanks) {
  auto platform = CreateCpuPlatform();
  absl::Status status =
      RunRankTimers(*platform, 4, 60, [&](RankTimer& timer) -> absl::Status {
        return timer
            .TimeCollective(
                CollectiveOf(CollectiveKind::kAllReduce, DType::kF32, 64, 3), 3)
            .status();
      });
  EXPECT_THAT(status.message(), HasSubstr("4 devices are no groups of 3"));
}

}  // namespace
}  // namespace asyra
