// What holds of every replay, on random programs.
#include <algorithm>
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "ir/happens_before.h"
#include "simulator/cost/compute_cost.h"
#include "simulator/cost/load_machine.h"
#include "tests/simulator/replay/random_program.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

constexpr double kSlack = 1e-6;

Program Random(uint32_t seed, int compute_streams) {
  bool joins = seed % 2 == 1;
  return Parse(RandomProgram(seed, 60, compute_streams, joins).text());
}

CostModel Model(const Program& program, double link_speed = 1) {
  Machine machine = TestMachine();
  machine.launch_us = 0.5;
  machine.link_gbps.achievable *= link_speed;
  return CostModel(std::move(machine), program.mesh);
}

class RandomReplay : public testing::TestWithParam<int> {
 protected:
  uint32_t seed() const { return static_cast<uint32_t>(GetParam()); }
};

TEST_P(RandomReplay, KeepsEveryOrder) {
  Program program = Random(seed(), 2);
  for (bool contention : {false, true}) {
    SCOPED_TRACE(fmt::format("seed {} contention {}", seed(), contention));
    SimResult result =
        Simulate(program, Model(program), {.contention = contention});
    std::map<StreamId, double> stream_end;
    std::map<AxisList, double> axes_end;
    // By value; constants are there from the beginning, though their place
    // on the stream comes later.
    std::vector<double> passed(program.values.size(), 0), there = passed;
    for (size_t i = 0; i < program.ops.size(); ++i) {
      const Op& op = program.ops[i];
      const OpSpan& span = result.spans[i];
      EXPECT_LE(span.start_us, span.end_us);
      EXPECT_GE(span.start_us, stream_end[op.stream]);
      for (ValueId value : op.operands) EXPECT_GE(span.start_us, there[value]);
      for (ValueId value : op.after) EXPECT_GE(span.start_us, passed[value]);
      for (ValueId value : op.results) {
        passed[value] = span.end_us;
        if (!IsConstant(op)) there[value] = span.end_us;
      }
      stream_end[op.stream] = span.end_us;
      if (!op.is_collective()) continue;
      double& before = axes_end[op.attrs.Get<AxisList>("axes")];
      EXPECT_GE(span.start_us, before);
      before = span.end_us;
    }
  }
}

TEST_P(RandomReplay, AccountsForEveryMoment) {
  Program program = Random(seed(), 2);
  SCOPED_TRACE(fmt::format("seed {}", seed()));
  SimResult result = Simulate(program, Model(program));
  EXPECT_LE(result.lower_bound_us, result.makespan_us + kSlack);
  EXPECT_LE(result.compute_us + result.exposed_comm_us,
            result.makespan_us + kSlack);
  EXPECT_LE(result.exposed_comm_us, result.comm_us + kSlack);
  double exposed = 0;
  for (const AxesExposure& axes : result.exposed) {
    EXPECT_LE(axes.exposed_us, result.exposed_comm_us + kSlack);
    exposed += axes.exposed_us;
  }
  EXPECT_GE(exposed, result.exposed_comm_us - kSlack);
  int64_t peak = 0;
  for (const MemoryPoint& point : result.memory) {
    EXPECT_GE(point.live_bytes, result.weight_bytes);
    peak = std::max(peak, point.live_bytes);
  }
  EXPECT_EQ(peak, result.peak_bytes);
}

TEST_P(RandomReplay, EachMemoryAnswerIsAtLeastTheOneBefore) {
  Program program = Random(seed(), 2);
  CostModel costs = Model(program);
  SimResult result = Simulate(program, costs);
  MemoryReport report = ReportMemory(program, result, costs.machine());
  EXPECT_EQ(report.live_bytes, result.peak_bytes) << "seed " << seed();
  EXPECT_GE(report.rounded_bytes, report.live_bytes) << "seed " << seed();
  EXPECT_GE(report.arena_bytes, report.rounded_bytes) << "seed " << seed();
  EXPECT_GE(report.device_bytes, report.arena_bytes) << "seed " << seed();
  int64_t alive = 0;
  for (const LiveBuffer& buffer :
       LiveBuffersAt(program, result.spans, report.peak_at_us)) {
    alive += buffer.bytes;
  }
  EXPECT_EQ(alive, report.live_bytes) << "seed " << seed();
}

// A machine with more of anything is not slower, nor is less work.
TEST_P(RandomReplay, MoreOfTheMachineNeverHurtsWithoutContention) {
  Program program = Random(seed(), 2);
  for (const char* edit :
       {"gpu.hbm_gbps*=1.5", "gpu.sms*=1.3", "gpu.clock_mhz*=1.3",
        "gpu.vector_tflops*=2", "host.link_gbps*=1.5", "launch_us*=0.5"}) {
    auto makespan = [&](std::vector<std::string> edits) {
      CostModel costs(ASYRA_VALUE(LoadMachine("h200x8", edits)), program.mesh);
      return Simulate(program, costs, {.contention = false}).makespan_us;
    };
    EXPECT_LE(makespan({edit}), makespan({}) + kSlack)
        << "seed " << seed() << " " << edit;
  }
}

// Matmuls in particular, which come in steps.
TEST_P(RandomReplay, MoreSmsOrASmallerMatmulAreNeverSlower) {
  std::mt19937 random(seed());
  auto size = [&] { return 1 + static_cast<int64_t>(random() % 5000); };
  const Gpu h100 = ASYRA_VALUE(LoadMachine("h100x8")).gpu;
  auto matmul_us = [&](int sms, int64_t m, int64_t n, int64_t k) {
    Gpu gpu = h100;
    for (auto& [dtype, rate] : gpu.matrix_tflops) {
      rate.achievable *= static_cast<double>(sms) / gpu.sms;
    }
    gpu.sms = sms;
    Work work = {.flops = 2.0 * double(m) * double(n) * double(k),
                 .matrix = true,
                 .rows = double(m),
                 .cols = double(n)};
    return EstimateCompute(gpu, work, DType::kBF16, Type(DType::kBF16, {m, n}))
        .math_us;
  };
  for (int i = 0; i < 100; ++i) {
    int sms = 20 + static_cast<int>(random() % 200);
    int64_t m = size(), n = size(), k = size();
    double us = matmul_us(sms, m, n, k) * (1 + 1e-12);
    std::string what =
        fmt::format("seed {}: {} SMs, {} x {} x {}", seed(), sms, m, n, k);
    EXPECT_LE(matmul_us(sms + 1, m, n, k), us) << what;
    EXPECT_LE(matmul_us(sms, m - m / 7, n, k), us) << what;
    EXPECT_LE(matmul_us(sms, m, n - n / 7, k), us) << what;
    EXPECT_LE(matmul_us(sms, m, n, k - k / 7), us) << what;
  }
}

TEST_P(RandomReplay, IsDeterministic) {
  Program program = Random(seed(), 2);
  SimResult one = Simulate(program, Model(program));
  SimResult two = Simulate(program, Model(program));
  for (size_t i = 0; i < one.spans.size(); ++i) {
    EXPECT_EQ(one.spans[i].start_us, two.spans[i].start_us)
        << "seed " << seed();
    EXPECT_EQ(one.spans[i].end_us, two.spans[i].end_us) << "seed " << seed();
  }
}

TEST_P(RandomReplay, FasterLinksNeverHurtWithoutContention) {
  Program program = Random(seed(), 2);
  double before =
      Simulate(program, Model(program), {.contention = false}).makespan_us;
  for (double speed : {1.1, 2.0, 7.0}) {
    double now = Simulate(program, Model(program, speed), {.contention = false})
                     .makespan_us;
    EXPECT_LE(now, before + kSlack) << "seed " << seed() << " speed " << speed;
    before = now;
  }
}

// Contention takes speed away and never gives any.
TEST_P(RandomReplay, ContentionStretchesOps) {
  Program program = Random(seed(), 2);
  std::vector<OpCost> op_costs = EstimateCosts(program, Model(program));
  SimResult result = Replay(program, op_costs);
  for (size_t i = 0; i < op_costs.size(); ++i) {
    EXPECT_GE(result.spans[i].end_us - result.spans[i].start_us,
              op_costs[i].time_us - kSlack)
        << "seed " << seed() << " op " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomReplay, testing::Range(1, 31));

}  // namespace
}  // namespace asyra
