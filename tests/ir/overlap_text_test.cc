// The text of overlaps with long bodies and all attributes round-trips.
#include "ir/plans/overlap_shape.h"
#include "ir/verify/verifier.h"
#include "tests/ir/one_op.h"
#include "tests/ir/plans/plan_case.h"

namespace asyra {
namespace {

// A gather, then `length` matmuls and elementwise ops of random earlier values,
// in random order. What nothing reads is a result.
PlanCase LongBody(int length, std::mt19937_64* random) {
  PlanCase c{"long", GroupMesh(2), {}, {}};
  std::vector<bool> is_matmul;
  for (int i = 0; i < length; ++i) is_matmul.push_back((*random)() % 3 == 0);
  is_matmul.push_back(true);
  c.operands = {Sharded(Type(DType::kF32, {8, 4}), 0)};
  for (bool matmul : is_matmul) {
    if (matmul) c.operands.emplace_back(DType::kF32, Shape{4, 4});
  }
  c.body.num_operands = static_cast<int>(c.operands.size());
  AttrMap attrs = {{"dim", int64_t{0}}, {"axes", AxisList{0}}};
  c.body.ops.push_back(MakeBodyOp("all_gather", {0}, attrs));
  // Values by the matmul that made their columns: only those may be joined.
  std::vector<std::vector<int>> families = {{c.body.num_operands}};
  std::vector<bool> read(c.body.num_values(), false);
  int weight = 0;
  for (bool matmul : is_matmul) {
    size_t family = (*random)() % families.size();
    auto any = [&] {
      return families[family][(*random)() % families[family].size()];
    };
    int made = c.body.num_values();
    BodyOp op = MakeBodyOp("relu", {any()});
    if (matmul) {
      op = MakeBodyOp("matmul", {any(), ++weight});
      families.push_back({made});
    } else {
      if ((*random)() % 3 != 0) {
        op = MakeBodyOp((*random)() % 2 == 0 ? "add" : "mul", {any(), any()});
      }
      families[family].push_back(made);
    }
    for (int value : op.operands) read[value] = true;
    read.push_back(false);
    c.body.ops.push_back(std::move(op));
  }
  for (int value = c.body.num_operands; value < c.body.num_values(); ++value) {
    if (!read[value]) c.body.results.push_back(value);
  }
  return c;
}

PlanShape AnyShape(const PlanCase& c, std::mt19937_64* random) {
  PlanShape shape{.order = static_cast<PlanOrder>((*random)() % 3),
                  .route = static_cast<PlanRoute>((*random)() % 4),
                  .parts = int64_t{1} << (*random)() % 3};
  if (shape.route == PlanRoute::kTwoLevels) shape.inner = 2;
  int64_t left = ASYRA_VALUE(ChunksOfARank(c.Group(), shape));
  while ((*random)() % 4 != 0 && left > 0) {
    shape.groups.push_back(
        1 + static_cast<int64_t>((*random)() % static_cast<uint64_t>(left)));
    left -= shape.groups.back();
  }
  if (!shape.groups.empty() && left > 0) shape.groups.push_back(left);
  return shape;
}

TEST(OverlapText, LongBodiesRoundTrip) {
  std::mt19937_64 random(1);
  for (int length : {1, 5, 20, 60, 200}) {
    for (int repeat = 0; repeat < 10; ++repeat) {
      PlanCase c = LongBody(length, &random);
      PlanShape shape = AnyShape(c, &random);
      AttrMap attrs = {{"body", BodyRef(c.body)}};
      ASYRA_CHECK_OK(CompleteAttrs(*FindOp("overlap"), &attrs));
      SetPlanShape(shape, &attrs);
      Builder builder(c.mesh, Stage::kLocal);
      std::vector<ValueId> operands;
      for (const Type& type : c.operands) {
        operands.push_back(builder.Input("x", type));
      }
      // Two ops, so that the second text begins after the first body.
      for (int i = 0; i < 2; ++i) {
        for (ValueId value :
             ASYRA_VALUE(builder.Add("overlap", operands, attrs))) {
          builder.Output(value);
        }
      }
      Program program = std::move(builder).Finish();
      absl::Status verified = Verify(program);
      ASSERT_TRUE(verified.ok()) << verified;
      ExpectTextRoundTrip(program);
      Program parsed = ASYRA_VALUE(ParseProgram(ToString(program)));
      const AttrMap& back = parsed.ops[1].attrs;
      EXPECT_EQ(*BodyOf(back), c.body);
      EXPECT_EQ(PlanShapeOf(back), shape);
      EXPECT_EQ(parsed.ops[1].results.size(), c.body.results.size());
    }
  }
}

}  // namespace
}  // namespace asyra
