// Plans of all templates compute what the body means, in whatever order the
// queues run, and the verifier proves them.
#include "ir/plans/plan_interpreter.h"
#include "ir/plans/verify_plan.h"
#include "ir/support/status.h"
#include "tests/ir/plans/every_plan.h"

namespace asyra {
namespace {

// Runs all shapes of a body; returns how many there were.
int ExpectPlansMeanTheBody(const PlanCase& c, int64_t parts) {
  std::vector<Tensor> whole = WholeOperands(c, 5);
  std::vector<Tensor> want = Meaning(c, whole);
  return ExpectEveryPlanGives(c, parts, whole,
                              [&](const PlanShape&) { return want; });
}

class Templates : public testing::TestWithParam<std::pair<int, int64_t>> {
 protected:
  int n() const { return GetParam().first; }
  int64_t parts() const { return GetParam().second; }
  int64_t rows() const { return n() * parts() * (n() < 8 ? 2 : 1); }
};

TEST_P(Templates, OfGathers) {
  EXPECT_GT(ExpectPlansMeanTheBody(GatherMatmuls(n(), rows()), parts()), 12);
  EXPECT_GT(ExpectPlansMeanTheBody(GatherAndKeep(n(), rows()), parts()), 12);
  EXPECT_GT(ExpectPlansMeanTheBody(GatherViewMatmul(n(), rows()), parts()), 12);
}

TEST_P(Templates, OfSums) {
  EXPECT_GT(ExpectPlansMeanTheBody(MatmulReduce(n(), rows(), false), parts()),
            12);
  EXPECT_GT(ExpectPlansMeanTheBody(MatmulReduce(n(), rows(), true), parts()),
            12);
}

TEST_P(Templates, OfWeightGradients) {
  for (const PlanCase& c :
       {WeightGradients(n(), rows()), MatmulScatterColumns(n(), rows()),
        ScatterBesideGather(n(), rows())}) {
    EXPECT_GT(ExpectPlansMeanTheBody(c, parts()), 12);
  }
}

TEST_P(Templates, OfExchanges) {
  EXPECT_GT(ExpectPlansMeanTheBody(MatmulExchange(n(), rows()), parts()), 6);
  EXPECT_GT(ExpectPlansMeanTheBody(Ulysses(n(), n() * parts()), parts()), 6);
}

TEST_P(Templates, OfBothEnds) {
  EXPECT_GT(ExpectPlansMeanTheBody(ReluGatherMatmul(n(), rows()), parts()), 12);
  EXPECT_GT(ExpectPlansMeanTheBody(GatherMatmulScatter(n(), rows()), parts()),
            12);
}

INSTANTIATE_TEST_SUITE_P(
    RanksAndParts, Templates,
    testing::Values(std::pair(2, 1), std::pair(2, 2), std::pair(2, 3),
                    std::pair(3, 1), std::pair(3, 2), std::pair(3, 3),
                    std::pair(4, 1), std::pair(4, 2), std::pair(4, 4),
                    std::pair(8, 1), std::pair(8, 2), std::pair(8, 4)),
    [](const auto& info) {
      return fmt::format("n{}_parts{}", info.param.first, info.param.second);
    });

// Rounded once, from the summands' own order: the plan's meaning does not
// depend on who is faster.
TEST(ChunkPlan, SumsOfBf16AreTheSameInEveryOrder) {
  PlanCase c = MatmulReduce(4, 8, true, DType::kBF16);
  std::vector<Tensor> whole = WholeOperands(c, 3);
  for (Tensor& tensor : whole) {
    std::vector<double> values = tensor.ToDoubles();
    for (double& value : values) value *= 0.37;
    tensor = Tensor::FromDoubles(tensor.dtype(), tensor.shape(), values);
  }
  std::vector<std::vector<Tensor>> operands = Spread(c, whole);
  for (PlanRoute route : {PlanRoute::kDirect, PlanRoute::kRing}) {
    ChunkPlan plan =
        ASYRA_VALUE(MakePlan(c.Group(), {.route = route, .parts = 2}));
    auto first = ASYRA_VALUE(RunPlan(plan, operands));
    for (uint64_t seed = 1; seed < 50; ++seed) {
      auto again = ASYRA_VALUE(RunPlan(plan, operands, {.seed = seed}));
      for (int r = 0; r < 4; ++r) {
        EXPECT_TRUE(SameBytes(first[r][0], again[r][0]));
        EXPECT_TRUE(SameBytes(first[0][0], again[r][0])) << "copies differ";
      }
    }
  }
}

// Own rows are first where they wait for nobody, and last where others do.
TEST(ChunkPlan, OrdersDifferByRank) {
  PlanCase c = GatherMatmuls(4, 8, 1);
  auto pieces = [&](PlanOrder order, int rank) {
    ChunkPlan plan = ASYRA_VALUE(MakePlan(c.Group(), {.order = order}));
    std::vector<int64_t> starts;
    for (const PlanStep& step : plan.steps[rank]) {
      if (step.kind == PlanStep::kPiece)
        starts.push_back(step.write.box.start[0]);
    }
    return starts;
  };
  EXPECT_EQ(pieces(PlanOrder::kOwnFirst, 2),
            (std::vector<int64_t>{4, 6, 0, 2}));
  EXPECT_EQ(pieces(PlanOrder::kOwnLast, 2), (std::vector<int64_t>{6, 0, 2, 4}));
  EXPECT_EQ(pieces(PlanOrder::kSame, 2), (std::vector<int64_t>{0, 2, 4, 6}));
}

void ExpectRefused(const PlanCase& c, const PlanShape& shape,
                   std::string_view text) {
  absl::StatusOr<ChunkPlan> plan = MakePlan(c.Group(), shape);
  ASSERT_FALSE(plan.ok()) << Text(shape);
  EXPECT_NE(MessageOf(plan.status()).find(text), std::string_view::npos)
      << plan.status();
}

TEST(ChunkPlan, WhatDoesNotDivideIsRefusedWithBothValues) {
  PlanCase c = GatherMatmuls(3, 12);
  ExpectRefused(c, {.parts = 3},
                "size 12, which does not divide into 3 shards of 3 parts");
  ExpectRefused(c, {.parts = 0}, "parts is 0");
  ExpectRefused(c, {.parts = 2, .groups = {2, 3}},
                "the groups cover 5 chunks, a rank computes 6");
  ExpectRefused(c, {.groups = {0, 3}}, "a group has 0 chunks");
  ExpectRefused(c, {.route = PlanRoute::kTwoLevels, .inner = 2},
                "3 ranks are not hosts of 2");
  ExpectRefused(Ulysses(2, 4), {.route = PlanRoute::kRing},
                "goes direct or is pulled");
  ExpectRefused(Ulysses(2, 2), {.parts = 2},
                "size 2, which does not divide into 2 shards of 2 parts");
}

TEST(ChunkPlan, SumsInPiecesAreThoseOfMatmulsThatNobodyElseReads) {
  PlanShape shape{.order = PlanOrder::kOwnLast, .sums_in_pieces = true};
  PlanCase c = MatmulReduce(2, 8, false);
  ASYRA_CHECK_OK(CheckPlanShape(c.Group(), shape));
  PlanShape other = shape;
  other.order = PlanOrder::kOwnFirst;
  ExpectRefused(c, other, "own shards last");
  other = shape;
  other.route = PlanRoute::kTwoLevels;
  other.inner = 2;
  ExpectRefused(c, other, "it goes direct, is pulled or goes in a ring");
  ExpectRefused(GatherMatmuls(2, 8), shape, "nothing is added up");
  c.body.results = {2, 3};
  ExpectRefused(c, shape, "%2 is read 2 times, not only to be added");
  c.body.results = {3};
  c.body.ops.insert(c.body.ops.begin() + 1, MakeBodyOp("neg", {2}));
  c.body.ops[2].operands = {3};
  c.body.results = {4};
  ExpectRefused(c, shape, "%3 is no result of a matmul");
}

// A rank's own pieces are behind all others, whatever the groups: what they
// add has been sent by then.
TEST(ChunkPlan, OwnPiecesAddWhatOthersComputed) {
  for (int n : {2, 3}) {
    PlanCase c = MatmulReduce(n, 2 * n, false);
    int64_t chunks = 2 * n;
    ChunkPlan plan =
        ASYRA_VALUE(MakePlan(c.Group(), {.order = PlanOrder::kOwnLast,
                                         .parts = 2,
                                         .groups = {1, chunks - 1},
                                         .sums_in_pieces = true}));
    for (int r = 0; r < n; ++r) {
      int adding = 0, sums = 0;
      for (const PlanStep& step : plan.steps[r]) {
        adding += AddsToResult(plan, step);
        sums += step.kind == PlanStep::kSum;
      }
      EXPECT_EQ(adding, 1) << "of rank " << r << " of " << n;
      // Two others' parts are added up before.
      EXPECT_EQ(sums, n == 2 ? 0 : 1);
    }
  }
}

// Each part of a body has a walk of its own; what two parts read has one.
TEST(ChunkPlan, PartsOfABodyAreWalkedApart) {
  PlanCase c = WeightGradients(2, 4);
  PlanShape shape{.order = PlanOrder::kOwnLast, .sums_in_pieces = true};
  ChunkPlan plan = ASYRA_VALUE(MakePlan(c.Group(), shape));
  // Other shards of both, then own ones: each in the chunk of its own rows.
  std::vector<std::pair<int, int64_t>> pieces;
  for (const PlanStep& step : plan.steps[0]) {
    if (step.kind != PlanStep::kPiece) continue;
    pieces.emplace_back(step.op, step.write.box.start[0]);
  }
  EXPECT_EQ(pieces, (std::vector<std::pair<int, int64_t>>{
                        {0, 8}, {2, 16}, {0, 0}, {2, 0}}));

  AttrMap attrs = {{"dim", int64_t{0}}, {"axes", AxisList{0}}};
  c.operands = {Sharded(Type(DType::kF32, {4, 6}), 0),
                Sharded(Type(DType::kF32, {4, 2}), 0)};
  c.body = {2,
            {MakeBodyOp("all_gather", {0}, attrs), MakeBodyOp("relu", {2}),
             MakeBodyOp("matmul_wgrad", {0, 1}),
             MakeBodyOp("reduce_scatter", {4}, attrs)},
            {3, 5}};
  ExpectRefused(c, {},
                "%0 is walked along dim 0 for one part of the body and 1 for "
                "another");
}

// What is not parallel along the walk cannot be cut.
TEST(ChunkPlan, SoftmaxOverTheWalkIsRefused) {
  PlanCase c = GatherMatmuls(2, 8, 1);
  AttrMap attrs = {{"dim", int64_t{1}}, {"axes", AxisList{0}}};
  c.operands = {Sharded(Type(DType::kF32, {3, 8}), 1)};
  c.body = {1,
            {MakeBodyOp("all_gather", {0}, attrs), MakeBodyOp("softmax", {1})},
            {2}};
  ExpectRefused(c, {}, "is not parallel");
}

// What must know which rows they are.
TEST(ChunkPlan, CausalAttentionOverTheWalkIsRefused) {
  PlanCase c = Ulysses(2, 2);
  Type whole(DType::kF32, {1, 4, 2, 2});
  c.operands = {Sharded(whole, 1), whole, whole};
  c.body = {
      3,
      {MakeBodyOp("all_gather", {0},
                  {{"dim", int64_t{1}}, {"axes", AxisList{0}}}),
       MakeBodyOp("attention", {3, 1, 2}, {{"scale", 0.5}, {"causal", true}})},
      {4}};
  ExpectRefused(c, {}, "positional in some op of the body");
}

TEST(ChunkPlan, ScattersOfAnotherDimensionAreRefused) {
  PlanCase c = GatherMatmulScatter(2, 8);
  c.operands[2] = Sharded(Type(DType::kF32, {4, 6}), 0);
  c.body.ops.back().attrs.Set("dim", int64_t{1});
  ExpectRefused(c, {},
                "op 4 of the body, reduce_scatter: it does not scatter the "
                "walked dimension, 0");
}

// Chunks of the inner part of a dimension are not boxes of it.
TEST(ChunkPlan, WalksInsideADimensionAreRefused) {
  PlanCase c = GatherMatmuls(2, 8, 1);
  AttrMap attrs = {{"dim", int64_t{1}}, {"axes", AxisList{0}}};
  c.operands = {Sharded(Type(DType::kF32, {3, 8}), 1)};
  c.body = {1,
            {MakeBodyOp("all_gather", {0}, attrs),
             MakeBodyOp("reshape", {1}, {{"shape", Ints{24}}})},
            {2}};
  ExpectRefused(c, {}, "is not outermost in dim 0 of %2");
}

TEST(ChunkPlan, WorkspaceIsBounded) {
  PlanCase c = GatherMatmuls(2, 8, 1);
  ChunkPlan plan = ASYRA_VALUE(MakePlan(c.Group(), {}));
  // The gathered value: 8 rows of 5 floats.
  EXPECT_EQ(plan.workspace_bytes, 256);
  absl::Status status = VerifyPlan(plan, {.most_workspace_bytes = 100});
  EXPECT_EQ(MessageOf(status), "the workspace has 256 bytes, 100 are allowed");
}

}  // namespace
}  // namespace asyra
