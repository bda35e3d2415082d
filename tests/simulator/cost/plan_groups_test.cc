// The exact groups against every partition there is.
#include "simulator/cost/plan_groups.h"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "gtest/gtest.h"

namespace asyra {
namespace {

using Groups = std::vector<int64_t>;

std::vector<Groups> AllPartitions(int64_t chunks) {
  if (chunks == 0) return {{}};
  std::vector<Groups> all;
  for (int64_t first = 1; first <= chunks; ++first) {
    for (Groups rest : AllPartitions(chunks - first)) {
      rest.insert(rest.begin(), first);
      all.push_back(std::move(rest));
    }
  }
  return all;
}

// Costs that grow with the group, not always evenly: waves.
struct Curves {
  explicit Curves(uint64_t seed) : random(seed) {
    std::uniform_real_distribution<double> any(1, 20);
    for (double* number : {&launch, &chunk, &issue, &moved}) {
      *number = any(random);
    }
    waves = 1 + random() % 3;
  }
  double Piece(int64_t n) const {
    return launch + chunk * static_cast<double>((n + waves - 1) / waves);
  }
  double Move(int64_t n) const {
    return issue + moved * static_cast<double>(n);
  }

  std::mt19937_64 random;
  double launch, chunk, issue, moved;
  int64_t waves;
};

TEST(PlanGroups, NeverWorseThanExhaustiveSearch) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Curves curves(seed);
    auto piece = [&](int64_t n) { return curves.Piece(n); };
    auto move = [&](int64_t n) { return curves.Move(n); };
    for (int64_t chunks : {1, 2, 5, 10}) {
      GroupPlan plan = BestGroupsToMove(chunks, piece, move);
      EXPECT_DOUBLE_EQ(TimeToMove(plan.groups, piece, move), plan.time_us);
      double best = plan.time_us;
      for (const Groups& groups : AllPartitions(chunks)) {
        best = std::min(best, TimeToMove(groups, piece, move));
      }
      EXPECT_DOUBLE_EQ(plan.time_us, best) << "seed " << seed;
    }
  }
}

TEST(PlanGroups, OfArrivalsNeverWorseEither) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Curves curves(seed);
    auto piece = [&](int64_t n) { return curves.Piece(n); };
    std::vector<double> arrivals;
    double at = 0;
    for (int i = 0; i < 9; ++i) {
      arrivals.push_back(at);
      at += std::uniform_real_distribution<double>(0, 30)(curves.random);
    }
    GroupPlan plan = BestGroupsOfArrivals(arrivals, piece);
    EXPECT_DOUBLE_EQ(TimeOfArrivals(plan.groups, arrivals, piece),
                     plan.time_us);
    for (const Groups& groups : AllPartitions(9)) {
      EXPECT_LE(plan.time_us, TimeOfArrivals(groups, arrivals, piece) + 1e-9);
    }
  }
}

// FlashOverlap's algorithm 1, by itself and as its text describes it: candidate
// partitions one by one, latencies from a sampled bandwidth curve. Two
// misprints of the listing are mended: the smallest latency begins at infinity,
// and the loop moves the group before the one that it computes.
class FlashOverlap {
 public:
  using Curve = std::vector<std::pair<double, double>>;  // MiB, GB/s

  FlashOverlap(int waves, double gemm_us, double wave_mib, Curve curve)
      : waves_(waves),
        gemm_us_(gemm_us),
        wave_mib_(wave_mib),
        curve_(std::move(curve)) {}

  double ComputeUs(int64_t waves) const {
    return gemm_us_ / waves_ * static_cast<double>(waves);
  }
  double MoveUs(int64_t waves) const {
    double mib = wave_mib_ * static_cast<double>(waves);
    size_t above = 1;
    while (above + 1 < curve_.size() && curve_[above].first < mib) ++above;
    auto [m0, g0] = curve_[above - 1];
    auto [m1, g1] = curve_[above];
    double gbps = g0 + (g1 - g0) * (std::clamp(mib, m0, m1) - m0) / (m1 - m0);
    return mib * (1 << 20) / (gbps * 1e3);
  }

  double Latency(const Groups& groups) const {
    double acc_comp_dur = 0, acc_comm_dur = 0, comm_dur = 0;
    for (int64_t group : groups) {
      acc_comm_dur = std::max(acc_comp_dur, acc_comm_dur) + comm_dur;
      acc_comp_dur += ComputeUs(group);
      comm_dur = MoveUs(group);
    }
    return std::max(acc_comp_dur, acc_comm_dur) + comm_dur;
  }

  // Over partitions whose first and last groups have at most so many waves.
  double SmallestLatency(int64_t most_first, int64_t most_last) const {
    double min_latency = std::numeric_limits<double>::infinity();
    // Bit i: a group ends after wave i.
    for (int ends = 0; ends < 1 << (waves_ - 1); ++ends) {
      Groups groups = {1};
      for (int wave = 1; wave < waves_; ++wave) {
        if ((ends >> (wave - 1) & 1) != 0) {
          groups.push_back(1);
        } else {
          ++groups.back();
        }
      }
      if (groups.front() > most_first || groups.back() > most_last) continue;
      min_latency = std::min(min_latency, Latency(groups));
    }
    return min_latency;
  }

 private:
  int waves_;
  double gemm_us_, wave_mib_;
  Curve curve_;
};

// Links between RTX 4090 and between A800, as its figure 8 has them: bandwidth
// that grows with the size and falls off a cliff below some MiB.
const FlashOverlap::Curve kCurves[] = {
    {{0.25, 1.5}, {1, 5}, {4, 11}, {16, 17}, {64, 19.5}, {256, 20}},
    {{0.25, 8}, {1, 30}, {4, 85}, {16, 140}, {64, 165}, {256, 172}}};

TEST(PlanGroups, EqualsFlashOverlapOnItsInputs) {
  int inputs = 0, pruned_finds_it = 0, links_are_late = 0;
  for (const FlashOverlap::Curve& curve : kCurves) {
    for (int waves : {1, 2, 5, 8, 12}) {
      for (double wave_us : {30.0, 120.0, 400.0, 1500.0}) {
        for (double wave_mib : {2.0, 8.0, 20.0}) {
          FlashOverlap theirs(waves, wave_us * waves, wave_mib, curve);
          auto piece = [&](int64_t n) { return theirs.ComputeUs(n); };
          auto move = [&](int64_t n) { return theirs.MoveUs(n); };
          GroupPlan plan = BestGroupsToMove(waves, piece, move);
          EXPECT_DOUBLE_EQ(plan.time_us, theirs.Latency(plan.groups));
          EXPECT_DOUBLE_EQ(plan.time_us, theirs.SmallestLatency(waves, waves));
          double pruned = theirs.SmallestLatency(2, 4);
          EXPECT_LE(plan.time_us, pruned * (1 + 1e-12));
          ++inputs;
          pruned_finds_it += pruned <= plan.time_us * (1 + 1e-12) ? 1 : 0;
          // Where the link is still busy when all is computed, joining the
          // last two waves costs nothing and saves a call.
          if (waves < 3 || move(1) * (waves - 2) < piece(1) * (waves - 1)) {
            continue;
          }
          ++links_are_late;
          EXPECT_LT(plan.time_us, theirs.Latency(Groups(waves, 1)));
        }
      }
    }
  }
  EXPECT_GT(pruned_finds_it, inputs / 2);
  EXPECT_GT(links_are_late, inputs / 8);
}

}  // namespace
}  // namespace asyra
