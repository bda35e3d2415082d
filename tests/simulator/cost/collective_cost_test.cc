#include "simulator/cost/collective_cost.h"

#include "gmock/gmock.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/nccl.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

using Kind = CollectiveKind;

constexpr GroupSpan kEight = {.ranks = 8, .hosts = 1, .per_host = 8};

double NcclUs(Kind kind, Algorithm algorithm, std::string_view protocol,
              const GroupSpan& span = kEight) {
  for (const Protocol& p : NcclProtocols(LinkKind::kNvlink, 141)) {
    if (p.name == protocol) return LatencyUs(kind, algorithm, p, span, 0);
  }
  ADD_FAILURE() << protocol;
  return 0;
}

// By hand from NCCL's tuning constants: 14 steps for an all_reduce.
TEST(CollectiveCost, LatenciesAreThoseOfNccl) {
  EXPECT_NEAR(NcclUs(Kind::kAllReduce, Algorithm::kRing, "Simple"), 56.0, 0.01);
  EXPECT_NEAR(NcclUs(Kind::kAllReduce, Algorithm::kRing, "LL"), 15.0, 0.01);
  EXPECT_NEAR(NcclUs(Kind::kAllReduce, Algorithm::kRing, "LL128"), 40.6, 0.01);
  EXPECT_NEAR(NcclUs(Kind::kAllReduce, Algorithm::kTree, "LL"), 15.2, 0.01);
  EXPECT_NEAR(NcclUs(Kind::kAllGather, Algorithm::kRing, "Simple"), 32.2, 0.01);
  EXPECT_NEAR(NcclUs(Kind::kAllGather, Algorithm::kRing, "LL"), 10.8, 0.01);
}

TEST(CollectiveCost, HopsBetweenHostsCostMore) {
  GroupSpan two = {.ranks = 16, .hosts = 2, .per_host = 8};
  // 15 steps, one of which crosses; an all_reduce has twice of each.
  EXPECT_NEAR(NcclUs(Kind::kAllGather, Algorithm::kRing, "LL", two),
              6.6 + 14 * 0.6 + 2.7, 0.01);
  EXPECT_NEAR(NcclUs(Kind::kAllReduce, Algorithm::kRing, "LL", two),
              6.6 + 28 * 0.6 + 2 * 2.7, 0.01);
  EXPECT_NEAR(NcclUs(Kind::kAllReduce, Algorithm::kTree, "LL", two),
              6.8 + 2 * (7 * 0.6 + 1 * 5.0), 0.01);
}

// A tree sends the payload once in each direction: all that two ranks do too,
// and little more than half of what a ring of 16 does.
TEST(CollectiveCost, ATreeBetweenTwoHostsSendsLessOverTheNetwork) {
  Machine machine = ASYRA_VALUE(LoadMachine("a800x8"));
  machine.link_gbps.achievable = machine.cta_gbps = 1e6;
  machine.protocols = {{.name = "Simple"}};
  constexpr double kBytes = 1e10;
  auto us = [&](GroupSpan span) {
    return EstimateCollective(machine, Kind::kAllReduce, kBytes, span, 8, {});
  };
  double share = machine.network_share_gbps() * 1e3;
  CollectiveEstimate tree = us({.ranks = 16, .hosts = 2, .per_host = 8});
  EXPECT_EQ(tree.algorithm, Algorithm::kTree);
  EXPECT_NEAR(tree.time_us, kBytes / (8 * share * TreeFraction(kBytes)), 10);
  CollectiveEstimate pair = us({.ranks = 2, .hosts = 2, .per_host = 1});
  EXPECT_EQ(pair.algorithm, Algorithm::kRing);
  EXPECT_NEAR(pair.time_us, kBytes / share, 10);
  CollectiveEstimate four = us({.ranks = 32, .hosts = 4, .per_host = 8});
  EXPECT_EQ(four.algorithm, Algorithm::kRing);
  EXPECT_NEAR(four.time_us, kBytes * 2 * 31 / 32 / (8 * share), 10);
}

TEST(CollectiveCost, ManyHostsPreferTrees) {
  Machine machine = ASYRA_VALUE(LoadMachine("h100x8"));
  GroupSpan many = {.ranks = 256, .hosts = 32, .per_host = 8};
  EXPECT_EQ(EstimateCollective(machine, Kind::kAllReduce, 65536, many, 8, {})
                .algorithm,
            Algorithm::kTree);
  EXPECT_EQ(EstimateCollective(machine, Kind::kAllReduce, 1e9, kEight, 8, {})
                .algorithm,
            Algorithm::kRing);
  EXPECT_EQ(EstimateCollective(machine, Kind::kAllToAll, 1e6, kEight, 8, {})
                .algorithm,
            Algorithm::kDirect);
}

// Bandwidth grows with size up to that of the link.
TEST(CollectiveCost, BandwidthDependsOnSize) {
  Machine machine = ASYRA_VALUE(LoadMachine("h100x8"));
  double before = 0;
  for (double bytes = 16384; bytes <= 1 << 30; bytes *= 4) {
    double us =
        EstimateCollective(machine, Kind::kAllGather, bytes, kEight, 8, {})
            .time_us;
    double busbw = bytes * 7 / 8 / (us * 1e3);
    EXPECT_GT(busbw, before);
    before = busbw;
  }
  EXPECT_GT(before, 0.9 * 320);  // 16 CTAs of 20 GB/s
  EXPECT_LT(before, 320);
}

TEST(CollectiveCost, FewerCtasAreSlowerAndHoldLess) {
  Machine machine = ASYRA_VALUE(LoadMachine("h100x8"));
  CollectiveEstimate all =
      EstimateCollective(machine, Kind::kAllReduce, 1 << 27, kEight, 8, {});
  CollectiveEstimate few = EstimateCollective(machine, Kind::kAllReduce,
                                              1 << 27, kEight, 8, {.ctas = 8});
  EXPECT_EQ(all.ctas, 24);
  EXPECT_EQ(few.ctas, 8);
  EXPECT_GT(few.time_us, 2 * all.time_us);
}

// One rule for what is estimated and what runs (ir/gpu/copy_engine_reach.h).
TEST(CollectiveCost, ProcessesAreCopiedBetweenWhereTheMachineSaysSo) {
  Machine machine = TestMachine();
  GroupSpan four = {.ranks = 4, .hosts = 1, .per_host = 4};
  CollectiveForm copy_engine = {.copy_engine = true};
  auto algorithm = [&] {
    return EstimateCollective(machine, Kind::kAllGather, 1e6, four, 4,
                              copy_engine)
        .algorithm;
  };
  EXPECT_EQ(algorithm(), Algorithm::kCopyEngine);
  machine.ranks_are_processes = true;
  EXPECT_EQ(algorithm(), Algorithm::kRing);
  EXPECT_EQ(ReachObstacle(ReachOf(machine, four)),
            "its ranks are processes that do not open each other's memory");
  machine.process_copies = true;
  EXPECT_EQ(algorithm(), Algorithm::kCopyEngine);
  GroupSpan two_hosts = {.ranks = 8, .hosts = 2, .per_host = 4};
  EXPECT_EQ(ReachObstacle(ReachOf(machine, two_hosts)),
            "its ranks are on several hosts");
  machine.p2p = false;
  EXPECT_EQ(ReachObstacle(ReachOf(machine, four)),
            "the devices have no peer access");
  machine.copy_engines = 0;
  EXPECT_EQ(ReachObstacle(ReachOf(machine, four)),
            "the devices have no copy engines");
}

TEST(CollectiveCost, CostsAreThoseOfHowRanksRun) {
  auto us = [&](bool asks, bool copies, bool processes) {
    Machine machine = TestMachine();
    machine.process_copies = copies;
    std::string call = "all_gather(bf16[33554432@x]) {dim=0, axes=x";
    if (asks) call += ", transport=copy_engine";
    return CostOf({call + "}", 4, 0}, machine,
                  {.ranks_are_processes = processes})
        .time_us;
  };
  double library_us = us(false, false, false);
  EXPECT_NE(us(true, false, false), library_us);
  EXPECT_EQ(us(true, false, true), library_us);
  EXPECT_EQ(us(true, true, true), us(true, false, false));
}

TEST(CollectiveCost, CopyEnginesTakeNoSms) {
  Machine machine = TestMachine();
  CollectiveForm copy_engine = {.copy_engine = true};
  GroupSpan four = {.ranks = 4, .hosts = 1, .per_host = 4};
  CollectiveEstimate estimate =
      EstimateCollective(machine, Kind::kAllGather, 1e6, four, 4, copy_engine);
  EXPECT_EQ(estimate.algorithm, Algorithm::kCopyEngine);
  EXPECT_EQ(estimate.ctas, 0);
  EXPECT_EQ(estimate.kernel_start_fraction, 1)
      << "no kernel has to find CTA slots";
  // Two meetings, three peers, and 0.75 MB at 5 GB/s.
  double meeting_us = 1 + 2.75 + 2 * 0.85;
  EXPECT_DOUBLE_EQ(estimate.time_us, 2 * meeting_us + 3 * 6 + 150);
  // Twice that, another meeting, and a sum that reads 1 MB and writes 0.25 MB.
  double sum_us =
      machine.gpu.kernel_us + 1.25e6 / (machine.gpu.hbm_gbps.achievable * 1e3);
  EXPECT_NEAR(
      EstimateCollective(machine, Kind::kAllReduce, 1e6, four, 4, copy_engine)
          .time_us,
      3 * meeting_us + 6 * 6 + 300 + sum_us, 1e-9);
  // Copy engines do not reach other hosts.
  GroupSpan two_hosts = {.ranks = 8, .hosts = 2, .per_host = 4};
  EXPECT_EQ(EstimateCollective(machine, Kind::kAllGather, 1e6, two_hosts, 4,
                               copy_engine)
                .algorithm,
            Algorithm::kRing);
}

// 8 GPUs that write to and read from 160 GB/s of host memory.
TEST(CollectiveCost, WithoutPeerAccessGpusShareTheHostsMemory) {
  Machine machine = ASYRA_VALUE(LoadMachine("rtx4090x8"));
  CollectiveEstimate estimate =
      EstimateCollective(machine, Kind::kAllGather, 1e9, kEight, 8, {});
  double busbw = 1e9 * 7 / 8 / ((estimate.time_us - estimate.alpha_us) * 1e3);
  EXPECT_DOUBLE_EQ(busbw, 160.0 / (2 * 8));
  GroupSpan pair = {.ranks = 2, .hosts = 1, .per_host = 2};
  estimate = EstimateCollective(machine, Kind::kAllGather, 1e9, pair, 2, {});
  busbw = 1e9 / 2 / ((estimate.time_us - estimate.alpha_us) * 1e3);
  EXPECT_DOUBLE_EQ(busbw, 22);  // its own link
}

}  // namespace
}  // namespace asyra
