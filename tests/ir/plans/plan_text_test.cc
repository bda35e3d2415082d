// The text of chunk plans: of every template it reads back, written by hand it
// means what it says, and errors name their place.
#include "ir/plans/plan_text.h"

#include <map>

#include "ir/plans/plan_interpreter.h"
#include "tests/ir/plans/every_plan.h"
#include "tests/ir/plans/ring_both_ways.h"
#include "tests/support/sanitized.h"

namespace asyra {
namespace {

// A plan whose signals are numbered in the order in which its steps name them.
ChunkPlan Renumbered(const ChunkPlan& plan) {
  ChunkPlan made = plan;
  made.signals.clear();
  std::map<int, int> number;
  for (std::vector<PlanStep>& steps : made.steps) {
    for (PlanStep& step : steps) {
      if (step.signal < 0) continue;
      auto [at, added] = number.try_emplace(
          step.signal, static_cast<int>(made.signals.size()));
      if (added) made.signals.push_back(plan.signals[step.signal]);
      step.signal = at->second;
    }
  }
  return made;
}

// Returns how many plans there were.
int ExpectReadsBack(const PlanCase& c, int64_t parts) {
  int plans = 0;
  for (const PlanShape& shape : EveryShapeOf(c, parts)) {
    SCOPED_TRACE(fmt::format("{} of {}, {}", c.name, c.ranks(), Text(shape)));
    absl::StatusOr<ChunkPlan> plan = MakePlan(c.Group(), shape);
    if (!plan.ok()) {
      EXPECT_TRUE(IsRefused(plan.status())) << plan.status();
      continue;
    }
    ++plans;
    std::string text = PrintPlan(*plan);
    absl::StatusOr<PlanRef> back = ParsePlan(text, c.Group());
    EXPECT_TRUE(back.ok()) << back.status() << "\n" << text;
    if (!back.ok()) break;
    EXPECT_EQ(PrintPlan(**back), text);
    EXPECT_TRUE(Renumbered(**back) == Renumbered(*plan)) << text;
    if (testing::Test::HasFailure()) break;
  }
  return plans;
}

TEST(PlanText, EveryTemplateReadsBack) {
  int plans = 0;
  for (int n : {2, 3, 4, 8}) {
    if (kSanitized && n > 3) break;
    for (int64_t parts : {1, 2}) {
      for (const PlanCase& c :
           {GatherMatmuls(n, 4 * n), GatherAndKeep(n, 4 * n),
            MatmulReduce(n, 4 * n, false), MatmulReduce(n, 4 * n, true),
            MatmulExchange(n, 4 * n), GatherMatmulScatter(n, 4 * n),
            Ulysses(n, 2 * n)}) {
        plans += ExpectReadsBack(c, parts);
      }
    }
    for (const PlanCase& c :
         {GatherViewMatmul(n, 2 * n), ReluGatherMatmul(n, 2 * n),
          WeightGradients(n, n), MatmulScatterColumns(n, n),
          ScatterBesideGather(n, n)}) {
      plans += ExpectReadsBack(c, 1);
    }
  }
  EXPECT_GT(plans, kSanitized ? 100 : 1500);
}

size_t Lines(const std::string& text) {
  return static_cast<size_t>(absl::c_count(text, '\n'));
}

// Ranks that differ by their number alone are written once.
TEST(PlanText, EightRanksAreOneBlock) {
  int n = 8, plans = 0;
  for (const PlanCase& c :
       {GatherMatmuls(n, 2 * n, 1), MatmulReduce(n, 2 * n, false),
        MatmulReduce(n, 2 * n, true), GatherMatmulScatter(n, 2 * n)}) {
    for (const PlanShape& shape : ShapesWithoutGroups(c, 2)) {
      // On these ranks are not alike.
      if (shape.order == PlanOrder::kSame) continue;
      if (shape.route == PlanRoute::kTwoLevels) continue;
      SCOPED_TRACE(c.name + " " + Text(shape));
      ++plans;
      std::string text = PrintPlan(ASYRA_VALUE(MakePlan(c.Group(), shape)));
      EXPECT_NE(text.find("rank r:"), std::string::npos);
      EXPECT_EQ(text.find("rank 1:"), std::string::npos);
      EXPECT_LT(Lines(text), 140u) << text;
    }
  }
  EXPECT_GE(plans, 24);
}

// Chunks are parts of shards: a text is one of other sizes too.
TEST(PlanText, ATextFitsOtherSizes) {
  int plans = 0;
  for (int n : {2, 4}) {
    auto expect = [&](const PlanCase& small, const PlanCase& large) {
      for (const PlanShape& shape : EveryShapeOf(small, 2)) {
        absl::StatusOr<ChunkPlan> plan = MakePlan(small.Group(), shape);
        if (!plan.ok()) continue;
        SCOPED_TRACE(small.name + " " + Text(shape));
        ++plans;
        PlanRef other = ASYRA_VALUE(ParsePlan(PrintPlan(*plan), large.Group()));
        ChunkPlan want = ASYRA_VALUE(MakePlan(large.Group(), shape));
        EXPECT_TRUE(Renumbered(*other) == Renumbered(want));
      }
    };
    expect(GatherMatmuls(n, 2 * n), GatherMatmuls(n, 6 * n));
    expect(MatmulReduce(n, 2 * n, true), MatmulReduce(n, 6 * n, true));
  }
  EXPECT_GT(plans, 50);
}

TEST(PlanText, AHandWrittenRingMeansTheBody) {
  PlanCase c = RingCase();
  PlanRef plan = ASYRA_VALUE(ParsePlan(kRingBothWays, c.Group()));
  std::string text = PrintPlan(*plan);
  EXPECT_EQ(PrintPlan(*ASYRA_VALUE(ParsePlan(text, c.Group()))), text);
  EXPECT_NE(text.find("rank r:"), std::string::npos);
  std::vector<Tensor> whole = WholeOperands(c, 2);
  Tensor want = Meaning(c, whole)[0];
  Type type = ASYRA_VALUE(OverlapTypes(c.body, c.operands, c.mesh))[3];
  for (int connections : {0, 1, 2}) {
    EXPECT_EQ(VerifyPlan(*plan, {.connections = connections}),
              absl::OkStatus());
    for (uint64_t seed = 0; seed < 20; ++seed) {
      auto got = ASYRA_VALUE(RunPlan(
          *plan, Spread(c, whole), {.seed = seed, .connections = connections}));
      for (int r = 0; r < 4; ++r) {
        EXPECT_TRUE(SameBytes(got[r][0], Shard(want, type, c.mesh, r)));
      }
    }
  }
}

// The order of lines of different queues, and blocks, mean nothing.
TEST(PlanText, BlocksOfOneRankSayTheSame) {
  PlanCase c = GatherMatmuls(2, 4, 1);
  PlanRef symbolic = ASYRA_VALUE(ParsePlan(R"(plan {
  queues compute, copy 0
  rank r:
    on compute: post ready to copy 0 of r+1; piece %3[#r, #r] from %0, %1;
      await came from copy 0 of r+1; piece %3[#r+1, #r]
    on copy 0: await ready from compute of r+1; put %0[#r, :] to %2 of r+1;
      post came to compute of r+1
})",
                                           c.Group()));
  PlanRef single = ASYRA_VALUE(ParsePlan(R"(plan {
  queues compute, copy 0
  rank 1:
    on copy 0: await ready from compute of 0; put %0 to %2[2:4, :] of 0;
      post came to compute of 0
    on compute: post ready to copy 0 of 0; piece %3[#1, #1] from %0, %1;
  await came from copy 0 of 0; piece %3[0:2, #1] from %2[#0, :], %1[:, 2:4]
  rank 0:
    on compute: post ready to copy 0 of r+1
  rank r:  // steps of both follow those above
  rank 0:
    on compute: piece %3[#0, #0] from %0, %1;
      await came from copy 0 of 1; piece %3[#1, #0]
    on copy 0: await ready from compute of 1; put %0[#0, :] to %2 of 1;
      post came to compute of 1
})",
                                         c.Group()));
  EXPECT_EQ(PrintPlan(*single), PrintPlan(*symbolic));
}

std::string ErrorOfPlan(std::string_view text, const PlanCase& c) {
  absl::StatusOr<PlanRef> plan = ParsePlan(text, c.Group());
  return plan.ok() ? "no error" : std::string(MessageOf(plan.status()));
}

// The error after a change to the ring of both directions.
std::string ErrorAfter(std::string_view from, std::string_view to) {
  std::string text(kRingBothWays);
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at == std::string::npos) return "";
  return ErrorOfPlan(text.replace(at, from.size(), to), RingCase());
}

// Planted bugs: the error has the two ends of the edge that is missing, with
// their places.
TEST(PlanText, PlantedBugsAreNamed) {
  // A wait is missing: the piece may come before what it reads.
  EXPECT_EQ(ErrorAfter("await came from up of r-1; piece %3[#r-1(0/2), #r];",
                       "piece %3[#r-1(0/2), #r];"),
            "rank 3, step 27 (line 19, column 7), on up: post came 3 from up "
            "of rank 3 to compute of rank 0: nobody waits for it, only for "
            "count 2");
  // A chunk is written twice.
  EXPECT_EQ(ErrorAfter("put %2[#r-2(0/2), :]", "put %2[#r-1(0/2), :]"),
            "rank 3, step 26 (line 18, column 34), on up: copy %2[4:5, 0:5] "
            "to %2[4:5, 0:5] of rank 0: [4:5, 0:5] is also written by rank "
            "3, step 14 (line 16, column 34), on up: copy %2[4:5, 0:5] to "
            "%2[4:5, 0:5] of rank 0");
  // A signal is never posted.
  EXPECT_EQ(ErrorAfter("post ready to down of r+1;", ""),
            "rank 0, step 25 (line 21, column 7), on down: wait for ready 1 "
            "from compute of rank 3 to down of rank 0: it is posted 0 times "
            "only");
  // One that nobody waits for.
  EXPECT_EQ(ErrorAfter("await came from up of r-1; put", "put"),
            "rank 0, step 15 (line 17, column 36), on up: post came 2 from "
            "up of rank 0 to up of rank 1: nobody waits for it, only for "
            "count 1");
  // Posted before what it tells of.
  EXPECT_EQ(ErrorAfter("put %0[#r(0/2), :] to %2 of r+1;\n"
                       "      post came to compute of r+1;",
                       "post came to compute of r+1; put %0[#r(0/2), :] to %2 "
                       "of r+1;"),
            "rank 0, step 22 (line 7, column 34), on compute: matmul of "
            "%3[6:7, 0:2]: it may come before what it reads, rank 3, step 6 "
            "(line 14, column 69), on up: copy %0[6:7, 0:5] to %2[6:7, 0:5] "
            "of rank 0");
  // All wait for each other.
  EXPECT_EQ(ErrorAfter("post came to up of r+1;\n"
                       "      await came from up of r-1;",
                       "await came from up of r-1; post came to up of r+1;"),
            "rank 0, step 7 (line 9, column 7), on compute: wait for came 2 "
            "from up of rank 3 to compute of rank 0: a deadlock: it waits "
            "for rank 3, step 21 (line 16, column 7), on up: post came 2 "
            "from up of rank 3 to compute of rank 0, which waits for this in "
            "the end");
  // Awaited, but behind the piece.
  EXPECT_EQ(
      ErrorAfter("await came from up of r-1; piece %3[#r-2(0/2), #r];\n"
                 "      await came from down of r+1; piece %3[#r+2(1/2), #r];\n"
                 "      await came from up",
                 "piece %3[#r-2(0/2), #r];\n"
                 "      await came from down of r+1; piece %3[#r+2(1/2), #r];\n"
                 "      await 2 came from up"),
      "rank 0, step 29 (line 9, column 7), on compute: matmul of "
      "%3[4:5, 0:2]: it may come before what it reads, rank 3, step 14 "
      "(line 16, column 34), on up: copy %2[4:5, 0:5] to %2[4:5, 0:5] "
      "of rank 0");
  // A result is not complete.
  EXPECT_EQ(ErrorAfter("; piece %3[#r+3(1/2), #r]", ""),
            "line 27, column 1: rank 0: of 16 elements of %3, 14 are computed");
}

TEST(PlanText, ErrorsNamePlaceAndValues) {
  std::pair<std::pair<std::string_view, std::string_view>, std::string_view>
      cases[] = {
          {{"plan {", "plan"},
           "line 2, column 3: expected '{', found 'queues'"},
          {{"queues compute, up, down", "rank r:"},
           "line 2, column 3: expected 'queues', found 'rank'"},
          {{"up, down", "up, up"},
           "line 2, column 23: queue up is there twice"},
          {{"on up:", "on push:"},
           "line 13, column 8: there is no queue push, there are compute, "
           "up, down"},
          {{"rank r:", "rank 4:"},
           "line 3, column 8: there is no rank 4, the group has 4"},
          {{"rank r:", "rank r+1:"},
           "line 3, column 8: a block is of 'rank r', all, or of one"},
          {{"to up of r-1", "to up of 9"},
           "line 5, column 27: for rank 0: there is no rank 9, the group has "
           "4"},
          {{"to up of r-1", "to compute"},
           "line 5, column 7: for rank 0: queue compute runs its steps in "
           "order, it needs no signal to itself"},
          {{"to up of r-1", "to up of up"},
           "line 5, column 27: expected a rank: a number, r, r+1, ..., found "
           "'up'"},
          {{"post ready to", "send ready to"},
           "line 5, column 7: expected a step: piece, sum, put, get, copy, "
           "post, await or exchange, found 'send'"},
          {{"piece %3[#r, #r] from %0, %1", "piece %3[#r] from %0, %1"},
           "line 6, column 15: for rank 0: the box has 1 dimensions, %3 has 2"},
          {{"piece %3[#r, #r] from %0, %1", "piece %3[#r, #r] from %0"},
           "line 6, column 13: for rank 0: it reads 1 operands, matmul has 2"},
          {{"piece %3[#r, #r] from %0, %1", "piece %0[#r, :]"},
           "line 6, column 13: for rank 0: %0 is an operand, no result"},
          {{"piece %3[#r, #r] from %0, %1", "piece %2[#r, :]"},
           "line 6, column 13: for rank 0: %2 is the result of all_gather, "
           "which has no pieces"},
          {{"piece %3[#r, #r] from %0, %1", "piece %9"},
           "line 6, column 13: for rank 0: %9 is no value of the body, which "
           "has 4"},
          {{"piece %3[#r, #r] from", "piece %3[0:9, #r] from"},
           "line 6, column 15: for rank 0: elements 0 to 9 of dim 0 of %3, "
           "which has size 8"},
          {{"%2[#r-1(0/2), :]", "%2[#r-1(0/3), :]"},
           "line 16, column 40: for rank 0: dim 0 of %2 has size 8, which "
           "does not divide into 4 shards of 3 parts"},
          {{"%2[#r-1(0/2), :]", "%2[#r-1(0/0), :]"},
           "line 16, column 40: for rank 0: dim 0 of %2 has size 8, which "
           "does not divide into 4 shards of 0 parts"},
          {{"%2[#r-1(0/2), :]", "%2[#r-1(9/2), :]"},
           "line 16, column 40: for rank 0: 10 parts from shard 3 on, there "
           "are 2"},
          {{"%2[#r-1(0/2), :]", "%2[#r-1(0/2), #r]"},
           "line 16, column 40: for rank 0: dim 1 of %2 has size 5, which "
           "does not divide into 4 shards of 1 parts"},
          {{"put %0[#r(0/2), :] to %2", "put %0[#r+1, :] to %2"},
           "line 14, column 44: for rank 0: [2:4, 0:5] is not in [0:2, 0:5], "
           "which %0 of rank 0 holds"},
          {{"put %0[#r(0/2), :] to %2", "put %0[#r(0/2), :] to s0"},
           "line 14, column 62: for rank 0: rank 1 has no scratch s0"},
          {{"rank r:", "rank r: scratch s0: %2[:, :] of 7"},
           "line 3, column 35: for rank 0: there is no rank 7, the group has "
           "4"},
          {{"rank r:", "rank r: scratch of: %2[:, :]"},
           "line 3, column 19: 'of' is no name of scratch"},
          {{"rank r:", "rank r: scratch a: %2[:, :] scratch a: %2[:, :]"},
           "line 3, column 39: for rank 0: scratch a of rank 0 is there twice"},
          {{"rank r:", "rank r: scratch a: %2[:, :] over %0"},
           "line 3, column 36: for rank 0: %0 is an operand of the op, not "
           "scratch"},
          {{"rank r:", "rank r: scratch a: %2[:, :] at 100"},
           "line 3, column 19: for rank 0: it is at 100, offsets are "
           "multiples of 256, at most 281474976710656"},
          {{"await came", "await 0 came"},
           "line 7, column 13: 0 posts, it awaits 1 to 1048576"},
          {{"post came to compute of r-1\n}", "post came to compute of r-1"},
           "line 27, column 1: expected 'on', 'scratch', 'rank' or '}', "
           "found 'the end'"},
          {{"post came to compute of r-1\n}",
            "post came to compute of r-1\n} more"},
           "line 27, column 3: expected the end, found 'more'"},
      };
  for (const auto& [change, want] : cases) {
    EXPECT_EQ(ErrorAfter(change.first, change.second), want)
        << change.first << " -> " << change.second;
  }
}

// Words of a text that are dropped, doubled or exchanged: what is still a plan
// prints and reads back, everything else is an error with a place.
TEST(PlanText, ChangedTextsAreRefusedOrReadBack) {
  PlanCase cases[] = {RingCase(), MatmulReduce(2, 4, false)};
  std::string texts[] = {
      std::string(kRingBothWays),
      PrintPlan(ASYRA_VALUE(MakePlan(
          cases[1].Group(), {.order = PlanOrder::kOwnLast, .parts = 2})))};
  std::mt19937_64 random(3);
  int read = 0, refused = 0;
  for (int i = 0; i < 2; ++i) {
    std::vector<std::string> words;
    for (size_t at = 0; at < texts[i].size();) {
      size_t end = texts[i].find_first_of(" \n[]();,:#", at + 1);
      end = std::min(end, texts[i].size());
      words.push_back(texts[i].substr(at, end - at));
      at = end;
    }
    for (int k = 0; k < 1500; ++k) {
      std::vector<std::string> changed = words;
      size_t a = random() % words.size(), b = random() % words.size();
      switch (random() % 3) {
        case 0:
          changed[a].clear();
          break;
        case 1:
          changed[a] += words[b];
          break;
        default:
          std::swap(changed[a], changed[b]);
      }
      std::string text = fmt::format("{}", fmt::join(changed, ""));
      absl::StatusOr<PlanRef> plan = ParsePlan(text, cases[i].Group());
      if (!plan.ok()) {
        ++refused;
        EXPECT_NE(MessageOf(plan.status()).find("line "), std::string::npos)
            << plan.status() << text;
        continue;
      }
      ++read;
      std::string printed = PrintPlan(**plan);
      PlanRef again = ASYRA_VALUE(ParsePlan(printed, cases[i].Group()));
      EXPECT_EQ(PrintPlan(*again), printed);
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace asyra
