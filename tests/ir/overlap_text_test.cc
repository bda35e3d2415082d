// The text of overlaps with long bodies and all attributes round-trips.
#include "ir/plans/overlap_shape.h"
#include "ir/verify/verifier.h"
#include "tests/ir/one_op.h"
#include "tests/ir/plans/plan_case.h"
#include "tests/ir/plans/planted_bug.h"

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

Program PlannedProgram() {
  return ASYRA_VALUE(ParseProgram(R"(asyra 1 local
mesh (tp=2)
program @planned(%x: f32[8@tp, 4], %w: f32[4, 6@tp]) -> (f32[8, 6@tp]) {
  %y = overlap(%x, %w) {
    %2 = all_gather(%0) {dim=0, axes=tp} : f32[8, 4]
    %3 = matmul(%2, %1) : f32[8, 6@tp]
    return %3
  } plan {
    queues compute, copy 0
    rank r:
      on compute: post ready to copy 0 of r+1; piece %3[#r, #r] from %0, %1;
        await came from copy 0 of r+1; piece %3[#r+1, #r]
      on copy 0: await ready from compute of r+1; put %0[#r, :] to %2 of r+1;
        post came to compute of r+1
  } : f32[8, 6@tp]
  return %y
}
)"));
}

TEST(OverlapText, APlanIsPartOfTheProgram) {
  Program program = PlannedProgram();
  EXPECT_EQ(Verify(program), absl::OkStatus());
  ExpectTextRoundTrip(program);
  const Op& op = program.ops[0];
  ASSERT_TRUE(HasOwnPlan(op.attrs));
  ChunkPlan plan =
      ASYRA_VALUE(PlanOf(op.attrs, program.OperandTypes(op), program.mesh));
  EXPECT_TRUE(plan == *op.attrs.Get<PlanRef>("plan"));
  Program again = ASYRA_VALUE(ParseProgram(ToString(program)));
  EXPECT_EQ(again.ops[0].attrs, op.attrs);
  // On one line, as tables of measured costs have it.
  std::string line =
      "overlap(f32[8@tp,4], f32[4,6@tp])" +
      AttrsToString(*op.def, op.attrs, program.OperandTypes(op), program.mesh);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(ASYRA_VALUE(ParseCall(line, program.mesh)).attrs, op.attrs);
  // Choices of a template put it aside, and the other way round.
  AttrMap attrs = op.attrs;
  SetPlanShape({.parts = 2}, &attrs);
  EXPECT_FALSE(HasOwnPlan(attrs));
  EXPECT_FALSE(attrs == op.attrs);
  SetPlan(op.attrs.Get<PlanRef>("plan"), &attrs);
  EXPECT_EQ(attrs, op.attrs);
}

TEST(OverlapText, APlanOfAnotherOpIsRefused) {
  Program program = PlannedProgram();
  auto error = [&](const Program& changed) {
    absl::Status status = Verify(changed);
    return std::string(MessageOf(status));
  };
  Program rows = program;
  for (ValueId value : {rows.inputs[0].value, rows.ops[0].results[0]}) {
    rows.values[value].type.dims[0].size = 16;
  }
  EXPECT_NE(error(rows).find("its plan has f32[8@ranks, 4] for %0 of the body, "
                             "which is f32[16@ranks, 4]"),
            std::string::npos)
      << error(rows);
  Program mesh = program;
  mesh.mesh = ASYRA_VALUE(Mesh::Create({{"tp", 1}}));
  EXPECT_NE(error(mesh).find("its plan is of 2 ranks, the group has 1"),
            std::string::npos)
      << error(mesh);
  Program both = program;
  both.ops[0].attrs.Set("parts", int64_t{2});
  EXPECT_NE(error(both).find("its plan is written out: order, route, parts"),
            std::string::npos)
      << error(both);
  Program kernel = program;
  kernel.ops[0].attrs.Set("form", std::string("one_kernel"));
  EXPECT_NE(error(kernel).find("form one_kernel has no pieces"),
            std::string::npos)
      << error(kernel);
  absl::Status status =
      ParseProgram(Replaced(ToString(program), "} plan {", "} {plan=2} plan {"))
          .status();
  EXPECT_NE(MessageOf(status).find("line 10, column 6: overlap: the plan comes "
                                   "behind the body: plan { ... }"),
            std::string::npos)
      << status;
  // Errors of a plan have the place in the program.
  status = ParseProgram(
               Replaced(ToString(program), "put %0[#r, :]", "put %0[#r+1, :]"))
               .status();
  EXPECT_NE(MessageOf(status).find(
                "line 15, column 55: for rank 0: [4:8, 0:4] is not in [0:4, "
                "0:4], which %0 of rank 0 holds"),
            std::string::npos)
      << status;
}

}  // namespace
}  // namespace asyra
