// The tuner never loses to a fixed shape.
#include "simulator/replay/plan_tuner.h"

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gtest/gtest.h"
#include "ir/call_parser.h"
#include "ir/plans/verify_plan.h"
#include "ir/support/check.h"
#include "simulator/cost/load_machine.h"
#include "simulator/cost/plan_cost.h"
#include "tests/ir/plans/plan_case.h"

namespace asyra {
namespace {

// Large enough to hide something.
PlanCase Large(PlanCase c, std::vector<Type> operands) {
  c.operands = std::move(operands);
  return c;
}

std::vector<PlanCase> Cases(int n) {
  Type rows(DType::kBF16, {8192, 4096}), wide(DType::kBF16, {4096, 14336});
  Type inner(DType::kBF16, {1, 8192, 14336});
  Type back(DType::kBF16, {14336, 4096});
  return {
      Large(GatherMatmuls(n, 8 * n, 1), {Sharded(rows, 0), Sharded(wide, 1)}),
      Large(MatmulReduce(n, 8 * n, false),
            {Sharded(inner, 2), Sharded(back, 0)})};
}

TEST(PlanTuner, NeverLosesToAFixedShape) {
  for (int n : {2, 4, 8}) {
    for (const PlanCase& c : Cases(n)) {
      SCOPED_TRACE(c.name + std::to_string(n));
      CostModel costs(ASYRA_VALUE(LoadMachine("h200x8")), c.mesh);
      PlanOrder order =
          c.name == "gather" ? PlanOrder::kOwnFirst : PlanOrder::kOwnLast;
      OverlapTuning tuned = TuneOverlap(c.body, c.operands, order, costs);
      ASSERT_GT(tuned.time_us, 0);
      ChunkPlan plan = ASYRA_VALUE(MakePlan(c.Group(), tuned.shape));
      ASYRA_CHECK_OK(VerifyPlan(plan));
      EXPECT_DOUBLE_EQ(ReplayPlan(plan, costs).time_us, tuned.time_us);
      for (int64_t parts : {1, 2, 4}) {
        ChunkPlan fixed =
            ASYRA_VALUE(MakePlan(c.Group(), {.order = order, .parts = parts}));
        EXPECT_LE(tuned.time_us, ReplayPlan(fixed, costs).time_us);
      }
    }
  }
}

std::string CallWith(const PlanShape& shape) {
  return fmt::format(
      "overlap(bf16[8192,14336@x], bf16[14336@x,4096]) {{"
      "%2 = matmul(%0, %1) : bf16[8192,4096] partial(x) "
      "%3 = reduce_scatter(%2) {{dim=0, axes=x}} : bf16[8192@x,4096] "
      "return %3}} {{order=own_last, parts={}, groups=[{}], "
      "sums_in_pieces={}}}",
      shape.parts, fmt::join(shape.groups, ", "), shape.sums_in_pieces);
}

// What was measured of plans decides, not what their replay says.
TEST(PlanTuner, TakesWhatWasMeasuredAsTheFastest) {
  Mesh mesh = ASYRA_VALUE(Mesh::Create({{"x", 2}}));
  ParsedCall call = ASYRA_VALUE(ParseCall(CallWith({}), mesh));
  Machine machine = ASYRA_VALUE(LoadMachine("h200x8"));
  // Pieces decide on groups: their measurements stay, those of plans go.
  Measurements measured = ASYRA_VALUE(LoadMeasurements("h200x8"));
  std::erase_if(measured.points, [](const Measurement& point) {
    return absl::StartsWith(point.call, "overlap(");
  });
  machine.table = ASYRA_VALUE(CostTable::Calibrate(measured, machine));
  std::vector<OverlapTuning> fastest =
      FastestOverlaps(*BodyOf(call.attrs), call.operands, PlanOrder::kOwnLast,
                      CostModel(machine, mesh), 5);
  ASSERT_EQ(fastest.size(), 5);
  EXPECT_TRUE(absl::c_is_sorted(
      fastest, [](const OverlapTuning& a, const OverlapTuning& b) {
        return a.time_us < b.time_us;
      }));
  for (const OverlapTuning& tuned : fastest) {
    bool quick = tuned.shape == fastest[3].shape;
    measured.points.push_back({CallWith(tuned.shape), 2, quick ? 100. : 2000.});
  }
  machine.table = ASYRA_VALUE(CostTable::Calibrate(measured, machine));
  OverlapTuning tuned =
      TuneOverlap(*BodyOf(call.attrs), call.operands, PlanOrder::kOwnLast,
                  CostModel(machine, mesh));
  EXPECT_EQ(tuned.shape, fastest[3].shape) << CallWith(tuned.shape);
  EXPECT_NEAR(tuned.time_us, 100, 0.01);
}

}  // namespace
}  // namespace asyra
