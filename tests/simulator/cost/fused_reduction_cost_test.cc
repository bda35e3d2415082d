// Costs of overlaps that are one kernel.
#include "simulator/cost/fused_reduction_cost.h"

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "simulator/cost/cost_table.h"
#include "simulator/cost/load_machine.h"

namespace asyra {
namespace {

std::string AllReduceAndNorm(int64_t rows, int64_t columns) {
  return fmt::format(
      "overlap(bf16[1,{0},{1}] partial(x), bf16[1,{0},{1}], bf16[{1}]) {{"
      "%3 = all_reduce(%0) {{axes=x}} : bf16[1,{0},{1}] "
      "%4 = add(%1, %3) : bf16[1,{0},{1}] "
      "%5 = rms_norm(%4, %2) {{eps=1e-05}} : bf16[1,{0},{1}] "
      "return %4, %5}} {{form=one_kernel}}",
      rows, columns);
}

// Without the machine's table, unless it is asked for.
struct Costed {
  Costed(std::string_view machine, int64_t ranks, const std::string& text,
         bool with_table = false)
      : mesh(ASYRA_VALUE(Mesh::Create({{"x", ranks}}))),
        costs(MachineOf(machine, with_table), mesh),
        call(ASYRA_VALUE(ParseCall(text, mesh))),
        results(ASYRA_VALUE(
            InferTypes(*call.def, call.attrs, call.operands, mesh))) {}

  static Machine MachineOf(std::string_view name, bool with_table) {
    Machine machine = ASYRA_VALUE(LoadMachine(name));
    if (!with_table) machine.table = nullptr;
    return machine;
  }
  OpCall use() const { return {*call.def, call.attrs, call.operands, results}; }

  Mesh mesh;
  CostModel costs;
  ParsedCall call;
  std::vector<Type> results;
};

// Measured on two H200, us; the formula alone.
TEST(FusedReductionCost, IsWhatWasMeasured) {
  const std::tuple<int64_t, int64_t, double> kMeasured[] = {
      {128, 4096, 10.92}, {512, 4096, 20.26}, {2048, 4096, 58.85},
      {128, 8192, 14.51}, {512, 8192, 33.98}, {2048, 8192, 109.25}};
  for (const auto& [rows, columns, us] : kMeasured) {
    Costed c("h200x2", 2, AllReduceAndNorm(rows, columns));
    OpCost cost = c.costs.Cost(c.use());
    EXPECT_NEAR(cost.time_us / us, 1, 0.1) << rows << " x " << columns;
    EXPECT_TRUE(cost.is_compute);
    EXPECT_GT(cost.load[kLink], 0);
    EXPECT_EQ(cost.source, OpCost::kFormula);
    // The table has it.
    Costed measured("h200x2", 2, AllReduceAndNorm(rows, columns), true);
    EXPECT_LE(measured.costs.Cost(measured.use()).source,
              OpCost::kInterpolated);
  }
}

// Each of them reads what all others have.
TEST(FusedReductionCost, GrowsWithTheOthersSummands) {
  Costed two("h200x8", 2, AllReduceAndNorm(2048, 8192));
  Costed four("h200x8", 4, AllReduceAndNorm(2048, 8192));
  double of_two = two.costs.Cost(two.use()).time_us;
  double of_four = four.costs.Cost(four.use()).time_us;
  EXPECT_GT(of_four, 2.5 * of_two);
  EXPECT_LT(of_four, 3 * of_two);
}

// Where kernels do not reach other GPUs, it is what executors run instead.
TEST(FusedReductionCost, IsThatOfItsPartsElsewhere) {
  Costed c("rtx4090x8", 2, AllReduceAndNorm(512, 4096));
  EXPECT_EQ(c.costs.Cost(c.use()).time_us,
            SplitReductionCost(c.use(), c.costs).time_us);
  Costed near("h200x8", 2, AllReduceAndNorm(512, 4096));
  EXPECT_LT(near.costs.Cost(near.use()).time_us,
            SplitReductionCost(near.use(), near.costs).time_us);
}

// Between hosts there is no such memory.
TEST(FusedReductionCost, StaysInsideAHost) {
  Costed c("h200x8", 16, AllReduceAndNorm(512, 4096));
  EXPECT_EQ(c.costs.Cost(c.use()).time_us,
            SplitReductionCost(c.use(), c.costs).time_us);
}

}  // namespace
}  // namespace asyra
