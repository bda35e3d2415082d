// Bugs planted in plans that are right: each is found, and named by rank and
// step.
#include "ir/plans/verify_plan.h"

#include <functional>

#include "ir/plans/plan_interpreter.h"
#include "ir/support/status.h"
#include "tests/ir/plans/plan_case.h"

namespace asyra {
namespace {

struct RightPlan {
  std::string name;
  PlanCase c;
  ChunkPlan plan;
};

std::vector<RightPlan> RightPlans() {
  std::vector<RightPlan> plans;
  auto add = [&](const PlanCase& c, const PlanShape& shape) {
    plans.push_back({fmt::format("{} of {}, route {}{}{}", c.name, c.ranks(),
                                 static_cast<int>(shape.route),
                                 shape.sums_in_pieces ? ", sums in pieces" : "",
                                 shape.exchanges ? ", exchanges" : ""),
                     c, ASYRA_VALUE(MakePlan(c.Group(), shape))});
    ASYRA_CHECK_OK(VerifyPlan(plans.back().plan));
  };
  for (PlanRoute route : {PlanRoute::kDirect, PlanRoute::kPull,
                          PlanRoute::kRing, PlanRoute::kTwoLevels}) {
    PlanShape shape{.route = route, .parts = 2, .inner = 2, .copy_queues = 3};
    add(GatherMatmuls(4, 8, 1), shape);
    shape.order = PlanOrder::kOwnLast;
    add(MatmulReduce(4, 8, false), shape);
    add(MatmulReduce(4, 8, true), shape);
    shape.sums_in_pieces = true;
    if (!CheckPlanShape(MatmulReduce(4, 8, false).Group(), shape).ok())
      continue;
    add(MatmulReduce(4, 8, false), shape);
    add(MatmulReduce(2, 8, true), shape);
  }
  add(Ulysses(2, 4), {.order = PlanOrder::kSame, .parts = 2});
  PlanShape messages{.parts = 2, .exchanges = true};
  add(GatherMatmuls(4, 8, 1), messages);
  messages.order = PlanOrder::kOwnLast;
  add(MatmulReduce(4, 8, true), messages);
  messages.sums_in_pieces = true;
  add(MatmulReduce(4, 8, false), messages);
  return plans;
}

bool MeansTheBody(const PlanCase& c, const ChunkPlan& plan, int runs) {
  std::vector<Tensor> whole = WholeOperands(c, 2);
  std::vector<Tensor> want = Meaning(c, whole);
  std::vector<Type> types =
      ASYRA_VALUE(OverlapTypes(c.body, c.operands, c.mesh));
  for (int seed = 0; seed < runs; ++seed) {
    auto got = RunPlan(plan, Spread(c, whole), {static_cast<uint64_t>(seed)});
    if (!got.ok()) return false;
    for (int r = 0; r < c.ranks(); ++r) {
      const Type& type = types[c.body.results[0]];
      if (!SameBytes((*got)[r][0], Shard(want[0], type, c.mesh, r))) {
        return false;
      }
    }
  }
  return true;
}

// Changes plans at every step where `plant` can, and expects each change to be
// found, by an error that says where: "rank 1, step 3, on ...". A few changes
// do no harm, such as a wait less where another one implies it: then the plan
// still means the body. Returns their share.
double ExpectFound(
    const std::function<bool(const RightPlan& right, int rank, int step,
                             ChunkPlan* plan)>& plant) {
  int found = 0, harmless = 0;
  for (const RightPlan& right : RightPlans()) {
    SCOPED_TRACE(right.name);
    for (int r = 0; r < right.plan.ranks; ++r) {
      for (size_t i = 0; i < right.plan.steps[r].size(); ++i) {
        int step = static_cast<int>(i);
        ChunkPlan plan = right.plan;
        if (!plant(right, r, step, &plan)) continue;
        absl::Status status = VerifyPlan(plan);
        std::string what = Describe(right.plan, r, step);
        if (status.ok()) {
          ++harmless;
          EXPECT_TRUE(MeansTheBody(right.c, plan, 20)) << what;
        } else {
          ++found;
          EXPECT_EQ(MessageOf(status).find("rank "), 0u)
              << what << ": " << status;
        }
      }
    }
  }
  EXPECT_GT(found, 0);
  return static_cast<double>(harmless) / (found + harmless);
}

TEST(VerifyPlan, EveryDroppedStepIsFound) {
  double harmless =
      ExpectFound([](const RightPlan&, int rank, int step, ChunkPlan* plan) {
        plan->steps[rank].erase(plan->steps[rank].begin() + step);
        return true;
      });
  EXPECT_LT(harmless, 0.02);
}

// Two copies of one rank write each other's boxes.
TEST(VerifyPlan, EverySwapOfTwoCopiesIsFound) {
  double harmless =
      ExpectFound([](const RightPlan&, int rank, int step, ChunkPlan* plan) {
        auto& steps = plan->steps[rank];
        if (steps[step].kind != PlanStep::kCopy) return false;
        for (int other = step - 1; other >= 0; --other) {
          if (steps[other].kind != PlanStep::kCopy) continue;
          std::swap(steps[step].write, steps[other].write);
          return true;
        }
        return false;
      });
  EXPECT_EQ(harmless, 0);
}

// Two exchanges of one rank in each other's place.
TEST(VerifyPlan, EverySwapOfTwoExchangesIsFound) {
  for (bool with_numbers : {false, true}) {
    double harmless =
        ExpectFound([&](const RightPlan&, int rank, int step, ChunkPlan* plan) {
          auto& steps = plan->steps[rank];
          if (steps[step].kind != PlanStep::kExchange) return false;
          for (int other = step - 1; other >= 0; --other) {
            if (steps[other].kind != PlanStep::kExchange) continue;
            std::swap(steps[step], steps[other]);
            if (!with_numbers) std::swap(steps[step].count, steps[other].count);
            return true;
          }
          return false;
        });
    // Messages that are needed together may come in either order.
    EXPECT_LT(harmless, with_numbers ? 1e-9 : 0.2);
  }
}

// A message goes to another rank than the one that reads it, or not at all.
TEST(VerifyPlan, EveryLostMessageIsFound) {
  for (bool drops : {false, true}) {
    double harmless = ExpectFound(
        [&](const RightPlan&, int rank, int index, ChunkPlan* plan) {
          PlanStep& step = plan->steps[rank][index];
          if (step.kind != PlanStep::kExchange || step.writes.empty()) {
            return false;
          }
          if (drops) {
            step.reads.pop_back();
            step.writes.pop_back();
          } else {
            int& to = step.writes[0].rank;
            to = (to + 1) % plan->ranks;
          }
          return true;
        });
    EXPECT_EQ(harmless, 0);
  }
}

TEST(VerifyPlan, EveryMiscountIsFound) {
  for (int change : {-1, 1}) {
    double harmless =
        ExpectFound([&](const RightPlan&, int rank, int step, ChunkPlan* plan) {
          if (plan->steps[rank][step].signal < 0) return false;
          plan->steps[rank][step].count += change;
          return true;
        });
    // To wait for a later post may do no harm.
    EXPECT_LT(harmless, change < 0 ? 1e-9 : 0.1);
  }
}

// A post before the work on its queue that it tells of.
TEST(VerifyPlan, EveryEarlyPostIsFound) {
  double harmless =
      ExpectFound([](const RightPlan&, int rank, int step, ChunkPlan* plan) {
        auto& steps = plan->steps[rank];
        PlanStep post = steps[step];
        if (post.kind != PlanStep::kPost) return false;
        int work = step - 1;
        while (work >= 0 &&
               (steps[work].queue != post.queue || steps[work].signal >= 0)) {
          --work;
        }
        if (work < 0) return false;
        steps.erase(steps.begin() + step);
        steps.insert(steps.begin() + work, post);
        return true;
      });
  // It may tell of work before that, or somebody may wait for the next.
  EXPECT_LT(harmless, 0.25);
}

// Two boxes of an operand of the same size, the one for the other.
TEST(VerifyPlan, EveryWrongBoxIsFound) {
  double harmless =
      ExpectFound([](const RightPlan&, int rank, int step, ChunkPlan* plan) {
        PlanStep& changed = plan->steps[rank][step];
        if (changed.reads.empty()) return false;
        PlanRegion& read = changed.reads[0];
        const Box& all = plan->buffer(read).box;
        for (int d = 0; d < all.rank(); ++d) {
          if (read.box.start[d] > all.start[d]) {
            --read.box.start[d];
            return true;
          }
        }
        return false;
      });
  EXPECT_EQ(harmless, 0);
}

// A signal that is not there any more, posts and waits.
ChunkPlan Without(const ChunkPlan& right, int signal) {
  ChunkPlan plan = right;
  for (auto& steps : plan.steps) {
    std::erase_if(steps, [&](const PlanStep& s) { return s.signal == signal; });
  }
  return plan;
}

TEST(VerifyPlan, EveryMissingSignalIsFound) {
  int found = 0, implied = 0;
  for (const RightPlan& right : RightPlans()) {
    SCOPED_TRACE(right.name);
    for (size_t s = 0; s < right.plan.signals.size(); ++s) {
      ChunkPlan plan = Without(right.plan, static_cast<int>(s));
      absl::Status status = VerifyPlan(plan);
      if (status.ok()) {  // others imply it
        ++implied;
        EXPECT_TRUE(MeansTheBody(right.c, plan, 20));
        continue;
      }
      ++found;
      EXPECT_EQ(MessageOf(status).find("rank "), 0u) << status;
    }
  }
  EXPECT_LT(implied, found / 20);
}

std::string ErrorOf(const ChunkPlan& plan) {
  return std::string(MessageOf(VerifyPlan(plan)));
}

// Rank 1 waits when it has told rank 0 everything: rank 0 may be in its next
// step by then.
TEST(VerifyPlan, ASignalIsNotPostedTwiceBeforeTheWait) {
  PlanCase c = GatherMatmuls(2, 4, 1);
  ChunkPlan plan = ASYRA_VALUE(MakePlan(c.Group(), {}));
  int signal = static_cast<int>(plan.signals.size());
  plan.signals.push_back({.from_rank = 0, .to_rank = 1});
  PlanStep post{.kind = PlanStep::kPost, .signal = signal, .count = 1};
  PlanStep wait = post;
  wait.kind = PlanStep::kWait;
  plan.steps[0].insert(plan.steps[0].begin(), post);
  plan.steps[1].push_back(wait);
  EXPECT_NE(ErrorOf(plan).find("rank 0 may post it again before"),
            std::string::npos)
      << ErrorOf(plan);
  // Posted when rank 1 has begun the step it is fine.
  plan.steps[0].erase(plan.steps[0].begin());
  plan.steps[0].push_back(post);
  EXPECT_EQ(ErrorOf(plan), "");
}

TEST(VerifyPlan, MissingAcknowledgementsAreNamed) {
  // Who pulls tells when it has read.
  ChunkPlan pulled = ASYRA_VALUE(
      MakePlan(GatherMatmuls(2, 4, 1).Group(), {.route = PlanRoute::kPull}));
  // Rank 0's queue that reads from rank 1, to rank 1's compute queue.
  int ack = -1;
  for (size_t s = 0; s < pulled.signals.size(); ++s) {
    const PlanSignal& signal = pulled.signals[s];
    if (signal.from_rank == 0 && signal.from_queue > 0 && signal.to_rank == 1) {
      ack = static_cast<int>(s);
    }
  }
  ASSERT_GE(ack, 0);
  EXPECT_EQ(ErrorOf(Without(pulled, ack)),
            "rank 0, step 3, on copy 0: copy %0[2:4, 0:5] of rank 1 to "
            "%2[2:4, 0:5]: rank 1 may have gone on: it gets no "
            "acknowledgement");
  // A ring lands in two places by turns.
  ChunkPlan ring = ASYRA_VALUE(
      MakePlan(MatmulReduce(4, 4, false).Group(),
               {.order = PlanOrder::kOwnLast, .route = PlanRoute::kRing}));
  ack = -1;
  for (size_t s = 0; s < ring.signals.size(); ++s) {
    const PlanSignal& signal = ring.signals[s];
    bool backwards = signal.from_rank == 2 && signal.to_rank == 1;
    int posts = 0;
    for (const PlanStep& step : ring.steps[2]) {
      posts += step.signal == static_cast<int>(s) &&
               step.kind == PlanStep::kPost && &step != &ring.steps[2][0];
    }
    if (backwards && posts > 0) ack = static_cast<int>(s);
  }
  ASSERT_GE(ack, 0);
  EXPECT_NE(
      ErrorOf(Without(ring, ack))
          .find("which uses the same memory: there is no acknowledgement"),
      std::string::npos)
      << ErrorOf(Without(ring, ack));
}

// Two queues that wait for each other do so for ever on one connection, and on
// one each only if both wait first.
TEST(VerifyPlan, DeadlocksAreNamedAndDependOnConnections) {
  ChunkPlan plan = ASYRA_VALUE(MakePlan(MatmulReduce(2, 4, false).Group(),
                                        {.order = PlanOrder::kOwnLast}));
  // The copy queue's wait for the piece, issued before the piece.
  auto& steps = plan.steps[0];
  auto is_copy = [](const PlanStep& step) { return step.queue == 1; };
  std::stable_partition(steps.begin(), steps.end(), is_copy);
  EXPECT_TRUE(VerifyPlan(plan).ok()) << VerifyPlan(plan);
  std::string error(MessageOf(VerifyPlan(plan, {.connections = 1})));
  EXPECT_NE(error.find("a deadlock: it waits for rank 0"), std::string::npos)
      << error;
  EXPECT_FALSE(RunPlan(plan,
                       Spread(MatmulReduce(2, 4, false),
                              WholeOperands(MatmulReduce(2, 4, false), 1)),
                       {.connections = 1})
                   .ok());
}

TEST(VerifyPlan, WrongMeaningsAreNamed) {
  PlanCase c = MatmulReduce(2, 4, false);
  ChunkPlan right = ASYRA_VALUE(MakePlan(c.Group(), {}));
  auto first = [&](ChunkPlan& plan, PlanStep::Kind kind) -> PlanStep& {
    for (PlanStep& step : plan.steps[0]) {
      if (step.kind == kind) return step;
    }
    return plan.steps[0][0];
  };
  ChunkPlan plan = right;
  first(plan, PlanStep::kSum).reads.pop_back();
  EXPECT_NE(ErrorOf(plan).find("it adds the summands of ranks 0x1, not of 0x3"),
            std::string::npos)
      << ErrorOf(plan);
  plan = right;
  PlanStep& sum = first(plan, PlanStep::kSum);
  sum.reads[1] = sum.reads[0];
  EXPECT_NE(ErrorOf(plan).find("summands of ranks 0x1 twice"),
            std::string::npos)
      << ErrorOf(plan);
  plan = right;
  PlanStep& piece = first(plan, PlanStep::kPiece);
  piece.reads[1].box.size[0] -= 1;
  EXPECT_NE(ErrorOf(plan).find("rank 0, step"), std::string::npos);
  // Half of the rows computed from the other half.
  plan = right;
  first(plan, PlanStep::kPiece).reads[0].box.start[1] = 2;
  EXPECT_NE(ErrorOf(plan).find("of a factor, elsewhere"), std::string::npos)
      << ErrorOf(plan);
}

// What all ranks hold is computed in equal pieces.
TEST(VerifyPlan, CopiesOfAValueHaveEqualBytes) {
  PlanCase c = GatherMatmuls(2, 8, 1);
  c.operands[1].dims[1].axes = {};  // the weight is whole: so is the result
  PlanShape grouped{.parts = 2, .groups = {1, 2, 1}};
  ChunkPlan plan = ASYRA_VALUE(MakePlan(c.Group(), grouped));
  EXPECT_NE(ErrorOf(plan).find("its bytes may differ from those of rank 0"),
            std::string::npos)
      << ErrorOf(plan);
  grouped.groups = {2, 2};
  plan = ASYRA_VALUE(MakePlan(c.Group(), grouped));
  EXPECT_EQ(ErrorOf(plan), "");
}

}  // namespace
}  // namespace asyra
