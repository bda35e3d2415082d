// The exact groups against every partition there is.
#include "simulator/plan_groups.h"

#include <random>

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

// FlashOverlap's inputs: T waves of equal time, communication of a curve with a
// fixed cost. Its pruned search (first group at most 2 waves, last at most 4)
// finds nothing better, and one wave a group is worse.
TEST(PlanGroups, EqualsFlashOverlapOnItsInputs) {
  for (double wave_us : {20.0, 60.0}) {
    for (double wave_move_us : {10.0, 25.0, 50.0}) {
      auto piece = [&](int64_t n) { return wave_us * static_cast<double>(n); };
      auto move = [&](int64_t n) {
        return 15 + wave_move_us * static_cast<double>(n);
      };
      GroupPlan plan = BestGroupsToMove(12, piece, move);
      double pruned = 1e30;
      for (const Groups& groups : AllPartitions(12)) {
        if (groups.front() > 2 || groups.back() > 4) continue;
        pruned = std::min(pruned, TimeToMove(groups, piece, move));
      }
      EXPECT_LE(plan.time_us, pruned + 1e-9);
      EXPECT_LE(plan.time_us, TimeToMove(Groups(12, 1), piece, move));
      if (wave_move_us > wave_us - 15) {
        EXPECT_LT(plan.time_us, TimeToMove(Groups(12, 1), piece, move));
      }
    }
  }
}

}  // namespace
}  // namespace asyra
