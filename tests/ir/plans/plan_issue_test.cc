// Plans as a device with one connection for each queue carries them out:
// enqueued in the order of issue, with a flag for each post of a step, which
// the wait clears.
#include <map>
#include <random>

#include "ir/support/status.h"
#include "tests/ir/plans/every_plan.h"

namespace asyra {
namespace {

constexpr int kRepeats = 3;  // of the step

// Calls `check` with every plan of every kind of body on `n` ranks.
void ForEveryPlan(int n, int64_t parts,
                  const std::function<void(const ChunkPlan&)>& check) {
  int64_t rows = n * parts * 2;
  for (const PlanCase& c :
       {GatherMatmuls(n, rows), GatherAndKeep(n, rows),
        GatherViewMatmul(n, rows), MatmulReduce(n, rows, false),
        MatmulReduce(n, rows, true), MatmulExchange(n, rows),
        Ulysses(n, n * parts), ReluGatherMatmul(n, rows),
        GatherMatmulScatter(n, rows), WeightGradients(n, rows)}) {
    for (const PlanShape& shape : EveryShapeOf(c, parts)) {
      absl::StatusOr<ChunkPlan> plan = MakePlan(c.Group(), shape);
      if (!plan.ok() && IsRefused(plan.status())) continue;
      ASSERT_TRUE(plan.ok())
          << c.name << ", " << Text(shape) << ": " << plan.status();
      SCOPED_TRACE(c.name + ", " + Text(shape));
      check(*plan);
    }
  }
}

// Where queues share a hardware connection, a rank's steps run one after the
// other. Returns the steps that every rank has done when no rank can go on.
std::vector<size_t> RunInOrderOfIssue(const ChunkPlan& plan) {
  std::vector<size_t> done(plan.ranks, 0);
  std::vector<int> posts(plan.signals.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < plan.ranks; ++rank) {
      const auto& steps = plan.steps[rank];
      for (; done[rank] < steps.size(); ++done[rank]) {
        const PlanStep& step = steps[done[rank]];
        if (step.kind == PlanStep::kWait && posts[step.signal] < step.count) {
          break;
        }
        if (step.kind == PlanStep::kPost) ++posts[step.signal];
        moved = true;
      }
    }
  }
  return done;
}

TEST(PlanIssue, RanksCanRunTheirStepsOneAfterTheOther) {
  int plans = 0;
  for (auto [n, parts] : {std::pair(2, 1), {2, 2}, {3, 2}, {4, 2}, {4, 4}}) {
    ForEveryPlan(n, parts, [&](const ChunkPlan& plan) {
      std::vector<size_t> done = RunInOrderOfIssue(plan);
      for (int rank = 0; rank < plan.ranks; ++rank) {
        EXPECT_EQ(done[rank], plan.steps[rank].size()) << "rank " << rank;
      }
      ++plans;
    });
  }
  EXPECT_GT(plans, 300);
}

// Queues in turns, in any order that flags allow.
class FlagRun {
 public:
  FlagRun(const ChunkPlan& plan, uint64_t seed)
      : plan_(plan), random_(seed), queues_(plan.ranks) {
    for (auto& queues : queues_) queues.resize(plan.queues.size());
  }

  // Empty, or what went wrong.
  std::string Run() {
    std::vector<int> repeats(plan_.ranks, 0);
    for (;;) {
      std::vector<std::pair<int, int>> ready;
      bool left = false;
      for (int rank = 0; rank < plan_.ranks; ++rank) {
        if (IsIdle(rank) && repeats[rank] < kRepeats) {
          ++repeats[rank];
          Issue(rank);
        }
        for (size_t queue = 0; queue < plan_.queues.size(); ++queue) {
          if (queues_[rank][queue].empty()) continue;
          left = true;
          if (CanRun(queues_[rank][queue].back())) {
            ready.emplace_back(rank, queue);
          }
        }
      }
      if (!left) return "";
      if (ready.empty()) return "nothing can go on";
      auto [rank, queue] = ready[random_() % ready.size()];
      auto& items = queues_[rank][queue];
      std::string wrong = Do(items.back());
      if (!wrong.empty()) return wrong;
      items.pop_back();
    }
  }

 private:
  // A wait for flags, or a post of one: by signal and number of the post.
  struct Item {
    bool waits = false;
    std::vector<std::pair<int, int>> flags;
  };

  bool IsIdle(int rank) const {
    return absl::c_all_of(queues_[rank],
                          [](const auto& items) { return items.empty(); });
  }

  // A step of the program begins when the one before has ended.
  void Issue(int rank) {
    std::map<int, int> posted, awaited;
    for (const PlanStep& step : plan_.steps[rank]) {
      Item item{.waits = step.kind == PlanStep::kWait};
      if (step.kind == PlanStep::kPost) {
        item.flags.emplace_back(step.signal, posted[step.signal]++);
      }
      for (int& next = awaited[step.signal]; item.waits && next < step.count;
           ++next) {
        item.flags.emplace_back(step.signal, next);
      }
      auto& items = queues_[rank][step.queue];
      items.insert(items.begin(), std::move(item));
    }
  }

  bool CanRun(const Item& item) {
    return !item.waits || absl::c_all_of(item.flags, [&](const auto& flag) {
      return flags_[flag];
    });
  }

  std::string Do(const Item& item) {
    for (const auto& flag : item.flags) {
      if (!item.waits && flags_[flag]) {
        return fmt::format("post {} of signal {} comes before it is cleared",
                           flag.second, flag.first);
      }
      flags_[flag] = !item.waits;
    }
    return "";
  }

  const ChunkPlan& plan_;
  std::mt19937_64 random_;
  std::vector<std::vector<std::vector<Item>>> queues_;  // the back comes next
  std::map<std::pair<int, int>, bool> flags_;
};

TEST(PlanIssue, FlagsAreClearedBeforeTheyAreSetAgain) {
  for (auto [n, parts] : {std::pair(2, 1), {2, 2}, {3, 2}, {4, 2}}) {
    if (kSanitized && n > 2) continue;
    ForEveryPlan(n, parts, [&](const ChunkPlan& plan) {
      for (uint64_t seed = 1; seed <= (kSanitized ? 2 : 6); ++seed) {
        EXPECT_EQ(FlagRun(plan, seed).Run(), "") << "seed " << seed;
      }
    });
  }
}

}  // namespace
}  // namespace asyra
