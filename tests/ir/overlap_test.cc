// The op `overlap`: text, types, meaning, and what is refused. Its plans are
// tested by chunk_plan_test.cc.
#include "ir/overlap.h"

#include "ir/plans/overlap_shape.h"
#include "ir/plans/plan_interpreter.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"
#include "tests/ir/plans/half_by_half.h"

namespace asyra {
namespace {

std::vector<OpCase> Samples() {
  std::vector<OpCase> cases;
  const OpDef* def = FindOp("overlap");
  for (size_t i = 0; i < def->samples.size(); ++i) {
    cases.push_back({def, def->samples[i], static_cast<int>(i)});
  }
  return cases;
}

class Overlap : public testing::TestWithParam<OpCase> {
 protected:
  void SetUp() override {
    mesh_ = GetParam().mesh();
    call_ = GetParam().Parse();
    program_ = OneOp(call_, mesh_, Stage::kLocal);
  }
  const Body& body() const { return *BodyOf(call_.attrs); }

  Mesh mesh_;
  ParsedCall call_;
  Program program_;
};

TEST_P(Overlap, TextRoundTrips) {
  absl::Status verified = Verify(program_);
  EXPECT_TRUE(verified.ok()) << verified;
  ExpectTextRoundTrip(program_);
}

TEST_P(Overlap, IsItsOpsOneAfterTheOther) {
  Program inlined = ASYRA_VALUE(InlineOverlaps(program_));
  absl::Status verified = Verify(inlined);
  EXPECT_TRUE(verified.ok()) << verified;
  EXPECT_EQ(inlined.ops.size(), body().ops.size());
  std::vector<Tensor> operands = GetParam().Fill(call_.operands);
  std::vector<Tensor> got = ASYRA_VALUE(Interpret(program_, operands));
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(inlined, operands));
  ASSERT_EQ(got.size(), body().results.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(SameBytes(got[i], want[i]));
  }
}

// Of each group of devices, with its part of what other axes shard.
TEST_P(Overlap, ItsPlanComputesTheSame) {
  std::vector<Tensor> operands = GetParam().Fill(call_.operands);
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(program_, operands));
  ChunkPlan plan = ASYRA_VALUE(PlanOf(call_.attrs, call_.operands, mesh_));
  std::vector<Type> results = program_.ResultTypes(program_.ops[0]);
  AxisList axes = AxesOf(body());
  for (int64_t device = 0; device < mesh_.num_devices(); ++device) {
    if (mesh_.GroupIndex(device, axes) != 0) continue;
    std::vector<int64_t> group = mesh_.Group(device, axes);
    std::vector<std::vector<Tensor>> of_ranks(group.size());
    for (size_t r = 0; r < group.size(); ++r) {
      for (size_t k = 0; k < operands.size(); ++k) {
        of_ranks[r].push_back(
            Shard(operands[k], call_.operands[k], mesh_, group[r]));
      }
    }
    auto got = ASYRA_VALUE(RunPlan(plan, of_ranks, {.seed = 1}));
    for (size_t r = 0; r < group.size(); ++r) {
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(
            SameBytes(got[r][i], Shard(want[i], results[i], mesh_, group[r])));
      }
    }
  }
}

TEST_P(Overlap, WorkIsThatOfItsOps) {
  Work work = WorkOf(OpUse(program_, program_.ops[0]), mesh_);
  Program inlined = ASYRA_VALUE(InlineOverlaps(program_));
  double flops = 0;
  for (const Op& op : inlined.ops) {
    if (!op.is_collective()) flops += WorkOf(OpUse(inlined, op), mesh_).flops;
  }
  EXPECT_EQ(work.flops, flops);
  EXPECT_GT(work.read_bytes, 0);
  EXPECT_GE(work.scratch_bytes, 0);
  // Of the whole value on one device.
  std::vector<Type> operands, results = program_.ResultTypes(program_.ops[0]);
  for (const Type& type : call_.operands) operands.push_back(type.Global());
  for (Type& type : results) type = type.Global();
  Work whole = WorkOf({*call_.def, call_.attrs, operands, results}, Mesh());
  EXPECT_GE(whole.flops, work.flops);
}

TEST_P(Overlap, TilesMakeTheWhole) {
  AxisRule rule =
      ASYRA_VALUE(AxisRuleOf({*call_.def, call_.attrs, call_.operands,
                              program_.ResultTypes(program_.ops[0])}));
  ExpectTilesMakeTheWhole(program_, rule, GetParam().Fill(call_.operands));
}

INSTANTIATE_TEST_SUITE_P(Samples, Overlap, testing::ValuesIn(Samples()),
                         CaseName);

std::string ErrorOf(std::string_view call) {
  Mesh mesh = ParseMesh("(a=2, b=2)");
  absl::StatusOr<ParsedCall> parsed = ParseCall(call, mesh);
  if (!parsed.ok()) return std::string(MessageOf(parsed.status()));
  return std::string(
      MessageOf(InferTypes(*parsed->def, parsed->attrs, parsed->operands, mesh)
                    .status()));
}

void ExpectError(std::string_view call, std::string_view text) {
  EXPECT_NE(ErrorOf(call).find(text), std::string::npos) << ErrorOf(call);
}

TEST(OverlapErrors, NameThePlace) {
  ExpectError(
      "overlap(f32[8,6], f32[6,8]) {%2 = matmul(%0, %1) : f32[8,8] return %2}",
      "the body has no collective");
  ExpectError(
      "overlap(f32[8@a,6]) {%1 = all_gather(%0) {dim=0, axes=a} : f32[8,6] "
      "return %1}",
      "the body has nothing but collectives");
  ExpectError(
      "overlap(f32[8@a,6@b], f32[6,8]) {"
      "%2 = all_gather(%0) {dim=0, axes=a} : f32[8,6@b] "
      "%3 = all_gather(%2) {dim=1, axes=b} : f32[8,6] "
      "%4 = matmul(%3, %1) : f32[8,8] return %4}",
      "op 1 of the body, all_gather: its axes are not those of the first");
  ExpectError(
      "overlap(f32[6@a,6], f32[6,8]) {"
      "%2 = all_gather(%0) {dim=0, axes=a} : f32[6,6] "
      "%3 = matmul(%2, %1) : f32[6,8] return %3} {parts=2}",
      "size 6, which does not divide into 2 shards of 2 parts");
  ExpectError(
      "overlap(f32[6@a,6], f32[6,8]) {"
      "%2 = all_gather(%0) {dim=0, axes=a} : f32[6,6] "
      "%3 = matmul(%2, %1) : f32[6,8] return %3} {groups=[3]}",
      "the groups cover 3 chunks, a rank computes 2");
  // The contracted dimension is not walked.
  ExpectError(
      "overlap(f32[6,6@a], f32[6,8]) {"
      "%2 = all_gather(%0) {dim=1, axes=a} : f32[6,6] "
      "%3 = matmul(%2, %1) : f32[6,8] return %3}",
      "is not parallel in some op of the body");
  ExpectError(
      "fusion(f32[8,6]) {%1 = all_gather(%0) {dim=0, axes=a} : f32[8,6] "
      "return %1}",
      "all_gather cannot be part of a fusion");
}

}  // namespace
}  // namespace asyra
